// kill -9 of a member at any instant under writes, a hundred times (or as often as the argument says): nothing
// acknowledged is lost, nothing is there twice, and the daemon always starts again on what it left.
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/integration/harness.h"

enum { KILLS = 100, MAX_KEYS = 2000000 };

static int kills = KILLS;

struct run {
  struct process member;
  char folder[256];
  uint8_t *acknowledged; // by key: 1 = inserted, 2 = deleted again; 0 = unknown
  int next;              // key
  unsigned seed;
};

static unsigned below(struct run *r, unsigned n) {
  r->seed = r->seed * 1103515245U + 12345U;
  return (r->seed >> 8) % n;
}

// Inserts in batches of one to twenty, deletes a few of what is known to be there; until the connection breaks.
static void write_until_killed(struct run *r, mongoc_client_t *c) {
  mongoc_collection_t *coll = mongoc_client_get_collection(c, "test", "kept");
  for (;;) {
    int n = 1 + (int)below(r, 20), first = r->next;
    bson_t *docs[20];
    assert_true(first + n < MAX_KEYS);
    for (int i = 0; i < n; i++)
      docs[i] = BCON_NEW("_id", BCON_INT32(first + i), "a", BCON_INT32((first + i) % 10), "pad",
                         BCON_UTF8("xxxxxxxxxxxxxxxx"));
    r->next += n;
    bson_error_t why;
    bool ok = mongoc_collection_insert_many(coll, (const bson_t **)docs, (size_t)n, NULL, NULL, &why);
    for (int i = 0; i < n; i++) {
      bson_destroy(docs[i]);
      if (ok) r->acknowledged[first + i] = 1;
    }
    if (!ok) break;
    if (below(r, 4)) continue;
    int victim = (int)below(r, (unsigned)r->next);
    if (r->acknowledged[victim] != 1) continue;
    bson_t *selector = BCON_NEW("_id", BCON_INT32(victim)), reply;
    r->acknowledged[victim] = 0;
    ok = mongoc_collection_delete_one(coll, selector, NULL, &reply, &why);
    if (ok) assert_int_equal(reply_i64(&reply, "deletedCount"), 1);
    bson_destroy(&reply);
    bson_destroy(selector);
    if (!ok) break;
    r->acknowledged[victim] = 2;
  }
  mongoc_collection_destroy(coll);
}

static void check_all(struct run *r, mongoc_client_t *c) {
  uint8_t *seen = calloc(MAX_KEYS, 1);
  mongoc_collection_t *coll = mongoc_client_get_collection(c, "test", "kept");
  bson_t *all = bson_new();
  mongoc_cursor_t *cursor = mongoc_collection_find_with_opts(coll, all, NULL, NULL);
  const bson_t *doc;
  int64_t n = 0;
  while (mongoc_cursor_next(cursor, &doc)) {
    int key = (int)reply_i64(doc, "_id");
    assert_in_range(key, 0, MAX_KEYS - 1);
    assert_int_equal(seen[key], 0);
    seen[key] = 1;
    n++;
  }
  bson_error_t why;
  if (mongoc_cursor_error(cursor, &why)) fail_msg("scan: %s", why.message);
  for (int key = 0; key < r->next; key++) {
    if (r->acknowledged[key] == 1 && !seen[key]) fail_msg("acknowledged %d is lost", key);
    if (r->acknowledged[key] == 2 && seen[key]) fail_msg("deleted %d is back", key);
  }
  // The secondary index and the statistics say the same as the scan.
  int64_t by_index = 0;
  for (int a = 0; a < 10; a++) {
    char filter[64];
    (void)snprintf(filter, sizeof filter, "{\"a\":%d}", a);
    by_index += count_documents(c, "test", "kept", filter);
  }
  assert_int_equal(by_index, n);
  bson_t reply;
  assert_true(command(c, "test", &reply, "{'count':'kept'}"));
  assert_int_equal(reply_i64(&reply, "n"), n);
  bson_destroy(&reply);
  mongoc_cursor_destroy(cursor);
  mongoc_collection_destroy(coll);
  bson_destroy(all);
  free(seen);
}

// Kills from a child process of its own, so that the writer need not watch a clock.
static void kill_after(struct run *r, int ms) {
  if (fork() == 0) {
    wait_ms(ms);
    (void)kill(r->member.pid, SIGKILL);
    _exit(0);
  }
}

static void nothing_acknowledged_is_lost(void **state) {
  struct run *r = calloc(1, sizeof *r);
  r->acknowledged = calloc(MAX_KEYS, 1);
  r->seed = (unsigned)time(NULL);
  print_message("seed %u\n", r->seed);
  folder_make(r->folder);
  member_start(&r->member, r->folder, "shardd", "rs", "");
  mongoc_client_t *c = client_of(&r->member);
  must(c, "test", "{'createIndexes':'kept','indexes':[{'key':{'a':1},'name':'a_1'}]}");
  for (int i = 0; i < kills; i++) {
    kill_after(r, 5 + (int)below(r, 150));
    write_until_killed(r, c);
    (void)process_end(&r->member, SIGKILL);
    mongoc_client_destroy(c);
    process_start(&r->member);
    c = client_of(&r->member);
    if (i % 10 == 9) check_all(r, c);
  }
  print_message("%d documents written over %d kills\n", r->next, kills);
  mongoc_client_destroy(c);
  assert_int_equal(process_end(&r->member, SIGTERM), 0);
  folder_remove(r->folder);
  free(r->acknowledged);
  free(r);
}

int main(int argc, char **argv) {
  if (argc > 1) kills = atoi(argv[1]);
  mongoc_init();
  const struct CMUnitTest tests[] = {cmocka_unit_test(nothing_acknowledged_is_lost)};
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  mongoc_cleanup();
  return failed;
}
