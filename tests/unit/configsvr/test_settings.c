// config.settings: what is refused, what it means, the window; and what may become a shard.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <string.h>

#include "common/bson/doc.h"
#include "configsvr/settings.h"
#include "configsvr/shard_check.h"

static bson_t *json(struct arena *a, const char *text) {
  bson_error_t why;
  bson_t *d = bson_new_from_json((const uint8_t *)text, -1, &why);
  if (!d) fail_msg("%s: %s", text, why.message);
  arena_on_free(a, (void (*)(void *))bson_destroy, d);
  return d;
}

static void validator(void **state) {
  static const struct {
    const char *doc;
    bool ok;
  } table[] = {
      {"{\"_id\": \"chunksize\", \"value\": 1}", true},
      {"{\"_id\": \"chunksize\", \"value\": 1024.0}", true},
      {"{\"_id\": \"chunksize\", \"value\": 0}", false},
      {"{\"_id\": \"chunksize\", \"value\": 1025}", false},
      {"{\"_id\": \"chunksize\", \"value\": \"64\"}", false},
      {"{\"_id\": \"chunksize\", \"size\": 64}", false},
      {"{\"_id\": \"balancer\", \"mode\": \"full\", \"stopped\": false}", true},
      {"{\"_id\": \"balancer\", \"stopped\": 1}", false},
      {"{\"_id\": \"balancer\", \"activeWindow\": {\"start\": \"23:00\", \"stop\": \"06:00\"}}", true},
      {"{\"_id\": \"balancer\", \"activeWindow\": {\"start\": \"23:00\", \"stop\": \"23:00\"}}", false},
      {"{\"_id\": \"balancer\", \"activeWindow\": {\"start\": \"24:00\", \"stop\": \"06:00\"}}", false},
      {"{\"_id\": \"balancer\", \"activeWindow\": {\"start\": \"noon\", \"stop\": \"06:00\"}}", false},
      {"{\"_id\": \"balancer\", \"activeWindow\": {\"start\": \"06:00\"}}", false},
      {"{\"_id\": \"balancer\", \"_secondaryThrottle\": {\"w\": 2}}", true},
      {"{\"_id\": \"balancer\", \"what\": 1}", false},
      {"{\"_id\": \"autosplit\", \"enabled\": true}", true},
      {"{\"_id\": \"automerge\", \"enabled\": \"yes\"}", false},
      {"{\"_id\": \"nosuch\", \"x\": 1}", false},
      {"{\"_id\": 5}", false},
  };
  struct arena *a = arena_new();
  for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
    struct error err = {0};
    if (settings_validate(json(a, table[i].doc), &err) != table[i].ok) fail_msg("%s", table[i].doc);
    if (!table[i].ok) assert_int_equal(err.code, ERR_DocumentValidationFailure);
  }
  arena_free(a);
}

static struct balancer_settings settings_of(struct arena *a, const char *doc) {
  struct balancer_settings s;
  const bson_t *docs[] = {json(a, doc)};
  assert_true(settings_read(docs, 1, &s, NULL));
  return s;
}

static void meaning(void **state) {
  struct arena *a = arena_new();
  struct balancer_settings s;
  assert_true(settings_read(NULL, 0, &s, NULL));
  assert_true(s.enabled && !s.has_window && s.chunk_bytes == 128 << 20);
  assert_true(settings_of(a, "{\"_id\": \"chunksize\", \"value\": 1}").chunk_bytes == 1 << 20);
  assert_false(settings_of(a, "{\"_id\": \"balancer\", \"stopped\": true, \"mode\": \"full\"}").enabled);
  assert_false(settings_of(a, "{\"_id\": \"balancer\", \"mode\": \"off\"}").enabled);
  assert_false(settings_of(a, "{\"_id\": \"balancer\", \"mode\": \"sometimes\"}").enabled);
  assert_true(settings_of(a, "{\"_id\": \"balancer\", \"mode\": \"full\"}").enabled);
  const bson_t *bad[] = {json(a, "{\"_id\": \"balancer\", \"activeWindow\": {\"start\": \"1\"}}")};
  struct error err = {0};
  assert_false(settings_read(bad, 1, &s, &err));
  assert_int_equal(err.code, ERR_BadValue);
  arena_free(a);
}

static void window(void **state) {
  struct arena *a = arena_new();
  struct balancer_settings day =
      settings_of(a, "{\"_id\": \"balancer\", \"activeWindow\": {\"start\": \"9:00\", \"stop\": \"17:30\"}}");
  struct balancer_settings night =
      settings_of(a, "{\"_id\": \"balancer\", \"activeWindow\": {\"start\": \"23:00\", \"stop\": \"06:00\"}}");
  struct balancer_settings always = {0};
  assert_true(settings_in_window(&always, 0));
  assert_true(settings_in_window(&day, 540) && settings_in_window(&day, 1050));
  assert_false(settings_in_window(&day, 539) || settings_in_window(&day, 1051));
  assert_true(settings_in_window(&night, 1380) && settings_in_window(&night, 0) && settings_in_window(&night, 360));
  assert_false(settings_in_window(&night, 361) || settings_in_window(&night, 1379));
  arena_free(a);
}

static void shard_candidates(void **state) {
  static const struct {
    const char *text, *hello;
    int32_t code; // 0: it may become a shard
  } table[] = {
      {"sh1/h:1", "{\"isWritablePrimary\": true, \"setName\": \"sh1\", \"hosts\": [\"h:1\", \"h:2\"]}", 0},
      {"h:1", "{\"isWritablePrimary\": true, \"msg\": \"isdbgrid\"}", ERR_IllegalOperation},
      {"sh1/h:1", "{\"isWritablePrimary\": false, \"setName\": \"sh1\", \"hosts\": [\"h:1\"]}", ERR_NotWritablePrimary},
      {"sh1/h:1", "{\"isWritablePrimary\": false, \"isreplicaset\": true}", ERR_NotWritablePrimary},
      {"h:1", "{\"isWritablePrimary\": true, \"setName\": \"sh1\", \"hosts\": [\"h:1\"]}", ERR_OperationFailed},
      {"sh2/h:1", "{\"isWritablePrimary\": true, \"setName\": \"sh1\", \"hosts\": [\"h:1\"]}", ERR_OperationFailed},
      {"sh1/h:1", "{\"isWritablePrimary\": true}", ERR_OperationFailed},
      {"sh1/h:1,h:3", "{\"isWritablePrimary\": true, \"setName\": \"sh1\", \"hosts\": [\"h:1\", \"h:2\"]}",
       ERR_OperationFailed},
      {"cfg/h:1", "{\"isWritablePrimary\": true, \"setName\": \"cfg\", \"configsvr\": 2, \"hosts\": [\"h:1\"]}",
       ERR_OperationFailed},
  };
  struct arena *a = arena_new();
  for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
    struct shard_candidate c = {0};
    struct error err = {0};
    assert_true(shard_candidate_parse(a, table[i].text, &c, &err));
    bool ok = shard_candidate_check(a, &c, json(a, table[i].hello), &err);
    if (ok != (table[i].code == 0) || err.code != table[i].code) fail_msg("%s: %s", table[i].hello, err.message);
    if (ok) assert_string_equal(c.host_string, "sh1/h:1,h:2");
  }
  static const char *const bad[] = {"", "/h:1", "sh1/", "sh1/h", "sh1/h:", "sh1/:5", "sh1/h:1,", "h:x"};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    struct shard_candidate c = {0};
    struct error err = {0};
    if (shard_candidate_parse(a, bad[i], &c, &err)) fail_msg("%s", bad[i]);
    assert_int_equal(err.code, ERR_BadValue);
  }
  struct shard_candidate c = {0};
  assert_true(shard_candidate_parse(a, "sh1/h:1", &c, NULL));
  assert_true(shard_candidate_overlaps(a, &c, "sh1/x:9") && shard_candidate_overlaps(a, &c, "sh9/h:1"));
  assert_false(shard_candidate_overlaps(a, &c, "sh2/h:2"));
  assert_true(shard_candidate_is_set(a, &c, "sh1/h:1,h:2"));
  assert_false(shard_candidate_is_set(a, &c, "sh1/h:2") || shard_candidate_is_set(a, &c, "sh2/h:1"));
  arena_free(a);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(validator), cmocka_unit_test(meaning), cmocka_unit_test(window),
                                     cmocka_unit_test(shard_candidates)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
