// Writing under locks against a log that answers late, loses leadership, and keeps or drops what was under way: 8
// fibers, random batches over 6 documents and 2 unique keys, retried until they are known to be done. No deadlock; what
// is applied always fits (no lost update, no second owner of a unique key); each statement of each transaction number
// takes effect once.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/bson/doc.h"
#include "common/repl/repl_internal.h"
#include "common/repl/write.h"
#include "common/store/change.h"

enum { FIBERS = 8, KEYS = 6, UNIQUES = 2, ROUNDS = 40, STATEMENTS = 4 };

struct world { // one member that is primary now and then, with its "store"
  struct loop *loop;
  struct repl *r;
  struct cluster_clock clock;
  struct collection c;
  struct entry *log[100000];
  uint64_t last, applied;
  int64_t version[KEYS], unique_of[KEYS];      // the documents: a counter, and the unique key that is theirs (-1 none)
  int64_t effects[FIBERS][ROUNDS][STATEMENTS]; // how often a statement was applied
  uint64_t term;
  int running;
  size_t refused, lost, done, waits, failovers;
};

static int below(int n) {
  return (int)(random_u64() % (uint64_t)n);
}

static uint64_t submit(void *ctx, struct entry *e) {
  struct world *w = ctx;
  w->log[++w->last] = entry_ref(e);
  return w->last;
}

static bool apply_change(void *ctx, const struct change *c) {
  struct world *w = ctx;
  if (!strcmp(c->kind, "p")) {
    int64_t key = c->rid, version = doc_i64(&c->doc, "v", -1), unique = doc_i64(&c->doc, "u", -1);
    assert_int_equal(version, w->version[key] + 1); // else an update was lost
    for (int i = 0; i < KEYS; i++) assert_false(unique >= 0 && i != key && w->unique_of[i] == unique);
    w->version[key] = version;
    w->unique_of[key] = unique;
  } else if (!strcmp(c->kind, "session")) {
    bson_t reply;
    assert_true(doc_doc(&c->raw, "r", &reply));
    w->effects[doc_i64(&reply, "session", -1)][doc_i64(&c->raw, "t", -1)][doc_i64(&c->raw, "s", -1)]++;
  }
  return true;
}

static void apply_up_to(struct world *w, uint64_t index) {
  while (w->applied < index) {
    bson_t doc;
    entry_doc(w->log[++w->applied], &doc);
    changes_each(&doc, apply_change, w);
  }
  proposals_applied(&w->r->proposals, index);
}

// The log: late, in groups; now and then leadership is lost, and a part of what was under way with it.
static void log_fiber(struct operation *op, void *arg) {
  struct world *w = arg;
  struct proposals *ps = &w->r->proposals;
  while (w->running) {
    assert_true(op_sleep(op, below(3), NULL));
    if (w->applied < w->last) apply_up_to(w, w->applied + 1 + (uint64_t)below((int)(w->last - w->applied)));
    if (below(12)) continue;
    w->failovers++;
    uint64_t kept = w->applied + (uint64_t)below((int)(w->last - w->applied) + 1);
    ps->term = 0;
    proposals_lose(ps, ERR_InterruptedDueToReplStateChange);
    assert_int_equal(ps->bytes, 0);
    assert_true(op_sleep(op, below(4), NULL)); // writers find no primary meanwhile
    for (; w->last > kept; w->last--) entry_unref(w->log[w->last]);
    apply_up_to(w, kept);
    ps->term = ++w->term;
  }
  assert_true(w->applied == w->last);
}

// --- a client ---

struct client {
  struct world *w;
  int session;
  int64_t lost_at;
};

static int64_t owner_of(const struct world *w, int64_t unique) {
  for (int i = 0; i < KEYS; i++)
    if (w->unique_of[i] == unique) return i;
  return -1;
}

enum outcome { EVALUATED, MUST_WAIT };

// One statement, as the node's CRUD does it: read, lock, read again where it matters, change, all without a yield in
// between.
static enum outcome evaluate(struct operation *op, struct client *k, struct write *write, int round, int statement,
                             int key, int64_t unique) {
  struct world *w = k->w;
  uint8_t lsid[16] = {(uint8_t)k->session};
  if (!write_lock_session(write, lsid)) return MUST_WAIT;
  if (w->effects[k->session][round][statement]) return EVALUATED; // answered from the record
  if (!write_lock_namespace(write, "db.c", false) || !write_lock_document(write, &w->c, key)) return MUST_WAIT;
  uint8_t bytes[8] = {(uint8_t)unique};
  if (unique >= 0 && !write_lock_unique(write, &w->c, 1, (struct key){bytes, 8})) return MUST_WAIT;
  if (unique >= 0 && owner_of(w, unique) >= 0) unique = -1; // a duplicate: goes without
  uint8_t old[8] = {(uint8_t)w->unique_of[key]};
  if (w->unique_of[key] >= 0 && w->unique_of[key] != unique &&
      !write_lock_unique(write, &w->c, 1, (struct key){old, 8}))
    return MUST_WAIT;
  struct change_list *l = write_changes(write);
  bson_t doc = BSON_INITIALIZER, reply = BSON_INITIALIZER;
  BSON_APPEND_INT64(&doc, "v", w->version[key] + 1);
  BSON_APPEND_INT64(&doc, "u", unique);
  if (below(3) == 0) { // some entries get full
    char *filler = arena_alloc(op->arena, 100000);
    memset(filler, 'x', 100000);
    BSON_APPEND_BINARY(&doc, "x", BSON_SUBTYPE_BINARY, (const uint8_t *)filler, 100000);
  }
  BSON_APPEND_INT32(&reply, "session", k->session);
  change_put(l, &w->c, 1, key, &doc);
  change_session(l, lsid, round, statement, &reply, NULL, NULL);
  bson_destroy(&doc);
  bson_destroy(&reply);
  return EVALUATED;
}

// A batch, tried until all of it is known to be done. false: this try ended in an error.
static bool try_batch(struct operation *op, struct client *k, int round, const int keys[STATEMENTS],
                      const int64_t uniques[STATEMENTS]) {
  struct world *w = k->w;
  struct error err = {0};
  struct write *write = write_begin(op, w->r);
  for (int i = 0; i < STATEMENTS; i++) {
    assert_true(op_yield(op, NULL));
    while (evaluate(op, k, write, round, i, keys[i], uniques[i]) == MUST_WAIT) {
      w->waits++;
      if (!write_wait(op, write, &err)) goto failed;
    }
    if (below(6) == 0 && !write_propose(write, &err)) goto failed;
  }
  if (write_commit(op, write, &err)) {
    for (int i = 0; i < STATEMENTS; i++) assert_int_equal(w->effects[k->session][round][i], 1);
    w->done++;
    return true;
  }
failed:
  if (err.code == ERR_InterruptedDueToReplStateChange)
    w->lost++;
  else {
    assert_int_equal(err.code, ERR_NotWritablePrimary);
    w->refused++;
  }
  return false;
}

static void client_fiber(struct operation *op, void *arg) {
  struct client *k = arg;
  op_deadline_in(op, 60000, ERR_MaxTimeMSExpired); // a deadlock would end here, as an unexpected error
  for (int round = 0; round < ROUNDS; round++) {
    int keys[STATEMENTS];
    int64_t uniques[STATEMENTS];
    for (int i = 0; i < STATEMENTS; i++) {
      keys[i] = below(KEYS);
      uniques[i] = below(2) ? -1 : below(UNIQUES);
    }
    while (!try_batch(op, k, round, keys, uniques)) assert_true(op_sleep(op, 1, NULL));
  }
  k->w->running--;
}

static struct world *world_new(struct loop *l) {
  struct world *w = calloc(1, sizeof *w);
  w->loop = l;
  w->r = aligned_alloc(128, (sizeof *w->r + 127) / 128 * 128);
  memset(w->r, 0, sizeof *w->r);
  proposals_init(&w->r->proposals, &w->clock, submit, w);
  w->r->proposals.term = w->term = 1;
  for (int i = 0; i < KEYS; i++) w->unique_of[i] = -1;
  return w;
}

static void world_free(struct world *w) {
  assert_null(w->r->proposals.first);
  assert_int_equal(lock_count(&w->r->proposals.locks), 0);
  proposals_free(&w->r->proposals);
  free(w->r);
  for (uint64_t i = 1; i <= w->last; i++) entry_unref(w->log[i]);
  free(w);
}

static void stop_when_done(struct operation *op, void *arg) {
  struct world *w = arg;
  while (w->running || loop_fibers(op->loop) > 1) assert_true(op_sleep(op, 1, NULL));
  loop_stop(op->loop);
}

static void test_random_batches(void **state) {
  struct loop *l = loop_new();
  struct world *w = world_new(l);
  struct client clients[FIBERS];
  w->running = FIBERS;
  for (int i = 0; i < FIBERS; i++) {
    clients[i] = (struct client){.w = w, .session = i == 1 ? 0 : i}; // 0 and 1 are the same client, retrying too early
    (void)operation_start(l, "client", client_fiber, &clients[i]);
  }
  (void)operation_start(l, "log", log_fiber, w);
  (void)operation_start(l, "end", stop_when_done, w);
  loop_run(l);
  assert_int_equal(w->done, FIBERS * ROUNDS);
  assert_true(w->lost > 0 && w->waits > 0 && w->failovers > 0);
  for (int i = 0; i < FIBERS; i++)
    for (int round = 0; round < ROUNDS && i != 1; round++)
      for (int s = 0; s < STATEMENTS; s++) assert_int_equal(w->effects[i][round][s], 1);
  print_message("%zu batches, %zu waits for locks, %zu failovers, %zu unknown and %zu refused tries, %zu entries\n",
                w->done, w->waits, w->failovers, w->lost, w->refused, (size_t)w->last);
  world_free(w);
  loop_free(l);
}

// --- single rules ---

struct script {
  struct world *w;
  void (*fn)(struct operation *op, struct world *w);
};

static void run_script(struct operation *op, void *arg) {
  struct script *s = arg;
  s->fn(op, s->w);
  loop_stop(op->loop);
}

static void in_world(void (*fn)(struct operation *op, struct world *w)) {
  struct loop *l = loop_new();
  struct script s = {world_new(l), fn};
  (void)operation_start(l, "script", run_script, &s);
  loop_run(l);
  world_free(s.w);
  loop_free(l);
}

static void put_something(struct write *write, struct world *w, int64_t key) {
  bson_t doc = BSON_INITIALIZER;
  BSON_APPEND_INT64(&doc, "v", w->version[key] + 1);
  change_put(write_changes(write), &w->c, 1, key, &doc);
  bson_destroy(&doc);
}

static void modes(struct operation *op, struct world *w) {
  struct write *a = write_begin(op, w->r), *b = write_begin(op, w->r);
  uint8_t lsid[16] = {1};
  assert_true(write_lock_document(a, &w->c, 1));
  assert_true(write_lock_document(a, &w->c, 1)); // has it already
  assert_false(write_lock_document(b, &w->c, 1));
  assert_true(write_lock_document(b, &w->c, 2));
  assert_true(write_lock_session(a, lsid));
  assert_false(write_lock_session(b, lsid));
  assert_true(write_lock_namespace(a, "x.y", false));
  assert_true(write_lock_namespace(b, "x.y", false));
  assert_false(write_lock_namespace(b, "x.y", true)); // a is in it; nobody new comes in now
  struct write *c = write_begin(op, w->r);
  assert_false(write_lock_namespace(c, "x.y", false));
  assert_true(write_lock_namespace(a, "x.y", false)); // a was there before
  put_something(a, w, 1);
  assert_true(write_propose(a, NULL));
  assert_false(write_lock_document(a, &w->c, 1)); // proposed: what it did is not readable yet
  assert_true(write_lock_session(a, lsid));       // its own transaction goes on
  assert_false(write_lock_session(b, lsid));
  write_abandon(a);
  write_abandon(c);
  struct error err;
  op_deadline_in(op, 20, ERR_MaxTimeMSExpired);
  assert_false(write_wait(op, b, &err)); // a's entry is not applied
  assert_int_equal(err.code, ERR_MaxTimeMSExpired);
  op->deadline_ms = OPERATION_NO_DEADLINE;
  apply_up_to(w, w->last);
  assert_true(write_lock_document(b, &w->c, 1));
  assert_true(write_lock_session(b, lsid));
  assert_true(write_lock_namespace(b, "x.y", true));
  write_abandon(b);
  assert_true(write_commit(op, a, NULL));
  assert_int_equal(write_last_index(a), 1);
}

static void test_modes(void **state) {
  in_world(modes);
}

// An entry that is full is sent; the locks of the statement under evaluation go with the next one.
static void full_entries(struct operation *op, struct world *w) {
  struct write *a = write_begin(op, w->r), *b = write_begin(op, w->r);
  bson_t large = BSON_INITIALIZER;
  uint8_t *filler = arena_zalloc(op->arena, 200000);
  BSON_APPEND_INT64(&large, "v", 1);
  BSON_APPEND_BINARY(&large, "x", BSON_SUBTYPE_BINARY, filler, 200000);
  for (int64_t key = 0; key < 4; key++) {
    assert_true(write_lock_namespace(a, "x.y", false));
    assert_true(write_lock_document(a, &w->c, key));
    change_put(write_changes(a), &w->c, 1, key, &large);
  }
  assert_int_equal(w->last, 2); // a short first entry, then two documents an entry; the third is open
  apply_up_to(w, 2);
  assert_true(write_lock_document(b, &w->c, 2));
  assert_false(write_lock_document(b, &w->c, 3));
  assert_false(write_lock_namespace(b, "x.y", true)); // a's third entry holds it too
  write_abandon(b);
  assert_true(write_propose(a, NULL));
  assert_int_equal(w->last, 3);
  apply_up_to(w, 3);
  assert_true(write_commit(op, a, NULL));

  for (int64_t key = 0; key < 3; key++) w->version[key] = 0;
  write_atomic(a);
  for (int64_t key = 0; key < 3; key++) {
    assert_true(write_lock_document(a, &w->c, key));
    change_put(write_changes(a), &w->c, 1, key, &large);
  }
  assert_true(write_propose(a, NULL));
  assert_int_equal(w->last, 4); // one entry, however large
  apply_up_to(w, 4);
  bson_destroy(&large);
}

static void test_full_entries(void **state) {
  in_world(full_entries);
}

static void other_writer(struct operation *op, void *arg) {
  struct world *w = arg;
  assert_true(op_sleep(op, 5, NULL));
  apply_up_to(w, w->last);
}

static void draining(struct operation *op, struct world *w) {
  struct write *a = write_begin(op, w->r), *b = write_begin(op, w->r);
  assert_true(write_drain_namespace(op, w->r, "x.y", NULL)); // nothing there
  assert_true(write_lock_namespace(a, "x.y", false));
  put_something(a, w, 1);
  assert_true(write_propose(a, NULL));
  (void)operation_start(op->loop, "other", other_writer, w);
  assert_true(write_drain_namespace(op, w->r, "x.y", NULL));
  assert_int_equal(w->applied, 1);
  assert_true(write_lock_namespace(b, "x.y", true));
  assert_true(write_drain_namespace(op, w->r, "x.y", NULL)); // does not wait for its own
  write_abandon(b);
}

static void test_draining(void **state) {
  in_world(draining);
}

static void failing(struct operation *op, struct world *w) {
  struct write *a = write_begin(op, w->r);
  struct error err;
  assert_true(write_lock_document(a, &w->c, 1));
  put_something(a, w, 1);
  w->r->proposals.term = 7; // another term than it was evaluated in
  assert_false(write_commit(op, a, &err));
  assert_int_equal(err.code, ERR_NotWritablePrimary);
  assert_int_equal(w->last, 0);
  assert_true(write_lock_document(a, &w->c, 1));
  put_something(a, w, 1);
  assert_true(write_propose(a, &err));
  w->r->proposals.term = 0;
  w->r->proposals.refusal = ERR_ShutdownInProgress;
  proposals_lose(&w->r->proposals, ERR_InterruptedDueToReplStateChange);
  assert_false(write_commit(op, a, &err));
  assert_int_equal(err.code, ERR_InterruptedDueToReplStateChange);
  assert_false(write_lock_document(a, &w->c, 1));
  assert_false(write_wait(op, a, &err));
  assert_int_equal(err.code, ERR_ShutdownInProgress);
}

static void test_failing(void **state) {
  in_world(failing);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_modes),   cmocka_unit_test(test_full_entries),   cmocka_unit_test(test_draining),
      cmocka_unit_test(test_failing), cmocka_unit_test(test_random_batches),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
