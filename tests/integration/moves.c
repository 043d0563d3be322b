// See moves.h.
#include "tests/integration/moves.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

static const char admin[] = "admin";
static const char range[] = "'min':{'customerId':0},'max':{'customerId':3000}";

void moves_setup(mongoc_client_t *router) {
  must(router, admin, "{'balancerStop':1}");
  must(router, admin, "{'enableSharding':'test','primaryShard':'sh1'}");
  must(router, admin, "{'shardCollection':'test.moving','key':{'customerId':1}}");
}

static bool move(mongoc_client_t *c, int to, bson_t *reply) {
  return command(c, admin, reply, "{'moveRange':'test.moving',%s,'toShard':'sh%d'}", range, to + 1);
}

int moves_owner(mongoc_client_t *router) {
  bson_t reply;
  assert_true(command(router, "config", &reply, "{'find':'chunks','filter':{'min.customerId':0}}"));
  bson_iter_t it, at;
  assert_true(bson_iter_init(&it, &reply));
  int found = 0; // before the first move the range is a part of the one chunk, on sh1
  if (bson_iter_find_descendant(&it, "cursor.firstBatch.0.shard", &at)) found = bson_iter_utf8(&at, NULL)[2] - '1';
  bson_destroy(&reply);
  return found;
}

void moves_until_on(mongoc_client_t *router, int to) {
  int64_t end = now_ms() + MOVES_SETTLE_MS;
  for (;;) {
    bson_t reply;
    bool ok = move(router, to, &reply);
    char *text = ok ? NULL : bson_as_relaxed_extended_json(&reply, NULL);
    bson_destroy(&reply);
    if (!ok && now_ms() > end) fail_msg("no move succeeds within %d ms: %s", MOVES_SETTLE_MS, text);
    bson_free(text);
    if (ok) break;
    wait_ms(200);
  }
  assert_int_equal(moves_owner(router), to);
}

void moves_delete_all(mongoc_client_t *router) {
  must(router, "test", "{'delete':'moving','deletes':[{'q':{},'limit':0}]}");
}

// --- a move that is interrupted ---

static void *run_move(void *arg) {
  struct mover *m = arg;
  mongoc_client_t *c = client_of(m->through);
  bson_t reply;
  bson_iter_t it;
  m->ok = move(c, m->to, &reply);
  if (!m->ok && bson_iter_init_find(&it, &reply, "errmsg"))
    (void)snprintf(m->error, sizeof m->error, "%s", bson_iter_utf8(&it, NULL));
  bson_destroy(&reply);
  mongoc_client_destroy(c);
  return NULL;
}

void mover_start(struct mover *m, const struct process *through, int to) {
  *m = (struct mover){.through = through, .to = to};
  assert_int_equal(pthread_create(&m->thread, NULL, run_move, m), 0);
}

void mover_join(struct mover *m) {
  (void)pthread_join(m->thread, NULL);
}

int64_t point_set(const struct process *p, const char *name, const char *mode) {
  mongoc_client_t *c = client_of(p);
  bson_t reply;
  assert_true(command(c, admin, &reply, "{'configureFailPoint':'%s','mode':'%s'}", name, mode));
  int64_t count = reply_i64(&reply, "count");
  bson_destroy(&reply);
  mongoc_client_destroy(c);
  return count;
}

void point_wait(const struct process *p, const char *name, int64_t before) {
  for (int64_t end = now_ms() + MOVES_HANG_MS; point_set(p, name, "alwaysOn") == before; wait_ms(20)) {
    if (now_ms() > end) fail_msg("%s was not reached", name);
  }
}

void mover_start_until(struct mover *m, const struct process *through, int to, const struct process *at,
                       const char *point) {
  int64_t before = point_set(at, point, "alwaysOn");
  mover_start(m, through, to);
  point_wait(at, point, before);
}

// --- settled ---

static int64_t leftovers(const struct process *shard) {
  static const char *const collections[] = {"rangeDeletions", "migrationCoordinators", "migrationRecipients",
                                            "collection_critical_sections"};
  mongoc_client_t *c = client_of(shard);
  int64_t n = 0;
  for (size_t i = 0; i < sizeof collections / sizeof *collections; i++)
    n += count_documents(c, "config", collections[i], "{}");
  mongoc_client_destroy(c);
  return n;
}

static int64_t count_directly(const struct process *shard) {
  mongoc_client_t *c = client_of(shard);
  int64_t n = count_documents(c, "test", "moving", "{}");
  mongoc_client_destroy(c);
  return n;
}

void moves_wait_settled(mongoc_client_t *router, const struct process *sh1, const struct process *sh2) {
  int64_t end = now_ms() + MOVES_SETTLE_MS, left = 1;
  while (left) {
    left = leftovers(sh1) + leftovers(sh2);
    if (left && now_ms() > end) fail_msg("%lld documents of migrations are left on the shards", (long long)left);
    if (left) wait_ms(50);
  }
  assert_int_equal(count_directly(sh1) + count_directly(sh2), count_documents(router, "test", "moving", "{}"));
}
