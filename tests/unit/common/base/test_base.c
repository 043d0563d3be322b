// Arena, buffer, map, errors and options.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/base/arena.h"
#include "common/base/buf.h"
#include "common/base/clock.h"
#include "common/base/error.h"
#include "common/base/log.h"
#include "common/base/map.h"
#include "common/base/options.h"

static void count_down(void *arg) {
  ++*(int *)arg;
}

static void arena_keeps_what_it_gave(void **state) {
  struct arena *a = arena_new();
  int cleaned = 0;
  for (int round = 0; round < 3; round++) {
    char *texts[500];
    for (int i = 0; i < 500; i++) {
      texts[i] = arena_printf(a, "%d-%*d", i, i * 7, 0);
      assert_int_equal((uintptr_t)texts[i] % 16, 0);
    }
    for (int i = 0; i < 500; i++) assert_int_equal(atoi(texts[i]), i);
    char *big = arena_zalloc(a, 1000000);
    assert_int_equal(big[999999], 0);
    arena_on_free(a, count_down, &cleaned);
    arena_reset(a);
    assert_int_equal(cleaned, round + 1);
  }
  bson_t *doc = arena_bson(a);
  for (int i = 0; i < 1000; i++) BSON_APPEND_INT32(doc, "x", i);
  arena_free(a);
}

static void buffer_grows(void **state) {
  struct buf b = {0};
  assert_string_equal(buf_str(&b), "");
  for (int i = 0; i < 1000; i++) buf_printf(&b, "%d,", i);
  assert_int_equal(strlen(buf_str(&b)), b.len);
  buf_clear(&b);
  buf_add_u64be(&b, 0x0102030405060708);
  assert_memory_equal(b.data, "\1\2\3\4\5\6\7\10", 8);
  buf_free(&b);
}

static bool remove_odd(void *ctx, const void *key, size_t len, void *value) {
  if (*(const char *)value % 2) map_remove(ctx, key, len);
  return true;
}

static void map_finds_and_removes(void **state) {
  struct map *m = map_new();
  char values[100];
  for (int i = 0; i < 100; i++) {
    values[i] = (char)i;
    assert_null(map_put(m, &i, sizeof i, &values[i]));
  }
  map_each(m, remove_odd, m);
  assert_int_equal(map_count(m), 50);
  for (int i = 0; i < 100; i++) assert_ptr_equal(map_get(m, &i, sizeof i), i % 2 ? NULL : &values[i]);
  assert_null(map_puts(m, "a", "1"));
  assert_string_equal(map_puts(m, "a", "2"), "1");
  assert_string_equal(map_removes(m, "a"), "2");
  assert_null(map_gets(m, "a"));
  map_free(m, NULL);
}

static void errors_nest_and_fit(void **state) {
  struct error e;
  char name[24];
  assert_false(error_set(&e, ERR_BadValue, "no %s", "x"));
  error_prefix(&e, "while %d", 5);
  assert_string_equal(e.message, "while 5 :: caused by :: no x");
  assert_string_equal(error_code_name(13388, name), "StaleConfig");
  assert_string_equal(error_code_name(40324, name), "Location40324");
  char long_text[3000];
  memset(long_text, 'a', sizeof long_text);
  for (size_t i = 0; i + 2 < sizeof long_text; i += 2) memcpy(long_text + i, "\xC3\xA4", 2);
  long_text[sizeof long_text - 1] = 0;
  error_set(&e, 1, "x%s", long_text);
  assert_true(bson_utf8_validate(e.message, strlen(e.message), false));
}

static const struct option table[] = {
    {.name = "port",
     .type = OPTION_INT,
     .yaml = "net.port",
     .argument = "N",
     .help = "the port",
     .min = 0,
     .max = 65535},
    {.name = "bind_ip", .type = OPTION_STRING, .yaml = "net.bindIp", .argument = "LIST", .help = "addresses"},
    {.name = "fork", .type = OPTION_FLAG, .yaml = "processManagement.fork", .help = "go to the background"},
    {.name = "setParameter", .type = OPTION_LIST, .yaml = "setParameter", .argument = "NAME=VALUE", .help = "set"},
    {.name = "config", .letter = 'f', .type = OPTION_STRING, .argument = "FILE", .help = "file"},
    {0}};

static void options_from_words(void **state) {
  struct arena *a = arena_new();
  struct error e = {0};
  char *argv[] = {"x", "--port", "5", "--bind_ip=1.2.3.4", "--fork", "--setParameter", "a=1", "--setParameter=b=2"};
  struct options *o = options_parse(a, table, 8, argv, &e);
  assert_non_null(o);
  size_t n;
  const char *const *list = options_list(o, "setParameter", &n);
  assert_int_equal(n, 2);
  assert_string_equal(list[1], "b=2");
  assert_int_equal(options_int(o, "port", 1), 5);
  assert_true(options_has(o, "fork"));
  const char *bad[][2] = {{"--prot", "unknown option"},     {"--port=x", "not a number"},
                          {"--port=70000", "out of range"}, {"--bind_ip", "needs a value"},
                          {"word", "unexpected word"},      {"--fork=7", "takes no value"}};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    char *words[] = {"x", (char *)bad[i][0]};
    assert_null(options_parse(a, table, 2, words, &e));
    assert_non_null(strstr(e.message, bad[i][1]));
  }
  arena_free(a);
}

static void options_from_a_file(void **state) {
  struct arena *a = arena_new();
  struct error e = {0};
  char path[] = "/tmp/shardlet-options-XXXXXX";
  int fd = mkstemp(path);
  const char text[] = "net:\n  port: 7\n  bindIp: 9.9.9.9\nprocessManagement:\n  fork: true\nsetParameter:\n  q: 3\n";
  assert_int_equal(write(fd, text, sizeof text - 1), sizeof text - 1);
  char *argv[] = {"x", "-f", path, "--port", "8"};
  struct options *o = options_parse(a, table, 5, argv, &e);
  assert_non_null(o);
  assert_int_equal(options_int(o, "port", 0), 8); // the command line wins
  assert_string_equal(options_string(o, "bind_ip", ""), "9.9.9.9");
  assert_true(options_has(o, "fork"));
  size_t n;
  assert_string_equal(options_list(o, "setParameter", &n)[0], "q=3");
  assert_int_equal(write(fd, "net:\n  foo: 1\n", 14), 14);
  assert_null(options_parse(a, table, 3, argv, &e));
  close(fd);
  unlink(path);
  assert_null(options_parse(a, table, 3, argv, &e));
  assert_non_null(strstr(e.message, "cannot read"));
  arena_free(a);
}

static void log_lines_are_json(void **state) {
  struct error e = {0};
  char path[] = "/tmp/shardlet-log-XXXXXX";
  int fd = mkstemp(path);
  assert_true(log_open(path, false, &e));
  bson_t doc = BSON_INITIALIZER;
  BSON_APPEND_UTF8(&doc, "k", "v");
  error_set(&e, ERR_StaleConfig, "old \"one\"");
  log_info("MIGRATE", "a \"quoted\" message\n", "s:s n:s d:d l:l f:f o:o b:b e:e", "x\"y", NULL, 5, (int64_t)1 << 40,
           0.5, true, &doc, &e);
  log_debug("MIGRATE", "too chatty", NULL);
  bson_destroy(&doc);
  char line[2000];
  ssize_t got = read(fd, line, sizeof line - 1);
  assert_true(got > 0 && line[got - 1] == '\n');
  bson_error_t why;
  line[got] = 0;
  char *rest = strstr(line, ",\"s\":"); // libbson does not read the colon in a date's +00:00
  assert_non_null(rest);
  *rest = '{';
  bson_t *parsed = bson_new_from_json((uint8_t *)rest, -1, &why);
  assert_non_null(parsed);
  bson_iter_t it, sub;
  assert_true(bson_iter_init(&it, parsed) && bson_iter_find_descendant(&it, "attr.e.codeName", &sub));
  assert_string_equal(bson_iter_utf8(&sub, NULL), "StaleConfig");
  bson_destroy(parsed);
  close(fd);
  unlink(path);
}

static void uuids_are_random(void **state) {
  uint8_t a[16], b[16];
  char text[37];
  uuid_new(a);
  uuid_new(b);
  assert_memory_not_equal(a, b, 16);
  uuid_text(a, text);
  assert_int_equal(strlen(text), 36);
  assert_int_equal(text[14], '4');
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(arena_keeps_what_it_gave), cmocka_unit_test(buffer_grows),
      cmocka_unit_test(map_finds_and_removes),    cmocka_unit_test(errors_nest_and_fit),
      cmocka_unit_test(options_from_words),       cmocka_unit_test(options_from_a_file),
      cmocka_unit_test(log_lines_are_json),       cmocka_unit_test(uuids_are_random),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
