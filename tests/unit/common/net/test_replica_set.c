// The monitor of a replica set and the choice of a member, against members that say what the test wants.
#include <stdlib.h>

#include "common/base/clock.h"
#include "common/bson/doc.h"
#include "common/net/command.h"
#include "common/net/replica_set.h"
#include "net_test.h"

enum { MEMBERS = 3 };

enum role { PRIMARY, SECONDARY, SILENT, STOPPED, OTHER_SET, HIDDEN };

struct fake {
  struct cluster *cluster;
  struct dispatcher *dispatcher;
  struct server *server;
  char host[32];
  enum role role;
  uint8_t term;
  const char *dc; // a tag
  int64_t written_ms;
  int pings;
  bool refuse_pings; // answers NotWritablePrimary
  int refuse_first;  // so many
};

struct cluster {
  struct fake members[MEMBERS];
  struct remotes *remotes;
  struct replica_set *set;
};

static void append_member_list(const struct cluster *c, bson_t *reply) {
  bson_t hosts;
  char key[12];
  BSON_APPEND_ARRAY_BEGIN(reply, "hosts", &hosts);
  for (int i = 0; i < MEMBERS; i++) {
    (void)snprintf(key, sizeof key, "%d", i);
    if (c->members[i].role != HIDDEN) BSON_APPEND_UTF8(&hosts, key, c->members[i].host);
  }
  bson_append_array_end(reply, &hosts);
}

static bool run_hello(struct request *r, bson_t *reply, struct error *err) {
  struct fake *f = r->daemon;
  if (f->role == STOPPED || (f->role == SILENT && !doc_has(r->body, "client"))) return op_sleep(r->op, 60000, err);
  bson_t part;
  bson_oid_t election = {.bytes = {[11] = f->term}};
  BSON_APPEND_UTF8(reply, "setName", f->role == OTHER_SET ? "other" : "rs");
  BSON_APPEND_BOOL(reply, "isWritablePrimary", f->role == PRIMARY);
  BSON_APPEND_BOOL(reply, "secondary", f->role == SECONDARY || f->role == HIDDEN);
  if (f->role == HIDDEN) BSON_APPEND_BOOL(reply, "hidden", true);
  if (f->role == PRIMARY) BSON_APPEND_OID(reply, "electionId", &election);
  append_member_list(f->cluster, reply);
  BSON_APPEND_DOCUMENT_BEGIN(reply, "lastWrite", &part);
  BSON_APPEND_DATE_TIME(&part, "lastWriteDate", f->written_ms);
  bson_append_document_end(reply, &part);
  BSON_APPEND_DOCUMENT_BEGIN(reply, "tags", &part);
  BSON_APPEND_UTF8(&part, "dc", f->dc);
  bson_append_document_end(reply, &part);
  return true;
}

static bool run_ping(struct request *r, bson_t *reply, struct error *err) {
  struct fake *f = r->daemon;
  f->pings++;
  if (f->refuse_pings || f->refuse_first-- > 0) return error_set(err, ERR_NotWritablePrimary, "not primary");
  return (f->role != SILENT && f->role != STOPPED) || op_sleep(r->op, 60000, err);
}

static void handle(void *ctx, struct operation *op, struct connection *c, const struct message *m, bson_t *reply) {
  struct fake *f = ctx;
  dispatch(f->dispatcher, op, c, m, reply);
}

static void start_member(struct operation *op, struct cluster *c, struct fake *f) {
  static const struct command commands[] = {
      {"hello", NULL, 0, run_hello, NULL}, {"ping", NULL, 0, run_ping, NULL}, {0}};
  static const struct command *const tables[] = {commands, NULL};
  static const char *const ips[] = {"127.0.0.1"};
  static const char *const dcs[] = {"east", "west", "north"};
  struct error err;
  struct dispatch_hooks hooks = {.daemon = f};
  struct server_options o = {.bind_ips = ips, .n_bind_ips = 1, .max_connections = 100, .what = "test"};
  f->cluster = c;
  f->dispatcher = dispatcher_new(tables, &hooks);
  f->server = server_listen(op->loop, &o, handle, f, &err);
  EXPECT(f->server != NULL);
  (void)snprintf(f->host, sizeof f->host, "127.0.0.1:%d", server_port(f->server));
  f->role = f == c->members ? PRIMARY : SECONDARY;
  f->term = 1;
  f->dc = dcs[f - c->members];
  f->written_ms = clock_wall_ms();
}

// The set is known by its second member alone: it finds the others.
static void setup(struct operation *op, struct cluster *c) {
  struct error err;
  *c = (struct cluster){0};
  for (int i = 0; i < MEMBERS; i++) start_member(op, c, &c->members[i]);
  c->remotes = remotes_new(op->loop, "test");
  c->set = replica_set_watch(op->loop, c->remotes,
                             arena_printf(op->arena, "rs/%s,%s", c->members[0].host, c->members[1].host), &err);
  EXPECT(c->set != NULL);
}

static void teardown(struct operation *op, struct cluster *c) {
  replica_set_unwatch(c->set);
  remotes_close(c->remotes);
  for (int i = 0; i < MEMBERS; i++) {
    server_close(op, c->members[i].server, ERR_InterruptedAtShutdown, 1000);
    dispatcher_free(c->members[i].dispatcher);
  }
}

static bool selects(struct operation *op, struct cluster *c, enum read_mode mode, bson_t *preference, int expected) {
  const char *host = NULL;
  struct error err;
  bool ok = replica_set_select(op, c->set, mode, preference, &host, &err) && !strcmp(host, c->members[expected].host);
  if (preference) bson_destroy(preference);
  return ok;
}

static bool ping(struct operation *op, struct cluster *c, bool idempotent, struct error *err) {
  bson_t *body = BCON_NEW("ping", BCON_INT32(1));
  struct remote_command cmd = {.db = "admin", .body = body};
  const bson_t *reply;
  const char *host;
  bool ok = replica_set_call(op, c->set, READ_PRIMARY, NULL, idempotent, &cmd, &reply, &host, err);
  bson_destroy(body);
  return ok;
}

static void selection(struct operation *op, void *arg) {
  struct cluster c;
  struct error err;
  const char *host;
  setup(op, &c);
  EXPECT(selects(op, &c, READ_PRIMARY, NULL, 0));
  // This waits until the third member is known, which nobody named but the primary.
  EXPECT(selects(op, &c, READ_NEAREST, BCON_NEW("tags", "[", "{", "dc", "north", "}", "]"), 2));
  EXPECT(selects(op, &c, READ_NEAREST, BCON_NEW("tags", "[", "{", "dc", "west", "}", "]"), 1));
  EXPECT(!strcmp(replica_set_name(c.set), "rs"));
  EXPECT(strstr(replica_set_string(c.set), c.members[2].host));
  EXPECT(!strcmp(replica_set_primary(c.set), c.members[0].host));
  EXPECT(selects(op, &c, READ_PRIMARY_PREFERRED, NULL, 0));
  EXPECT(selects(op, &c, READ_SECONDARY, BCON_NEW("tags", "[", "{", "dc", "west", "}", "]"), 1));
  EXPECT(
      selects(op, &c, READ_NEAREST, BCON_NEW("tags", "[", "{", "dc", "south", "}", "{", "dc", "north", "}", "]"), 2));
  EXPECT(selects(op, &c, READ_SECONDARY_PREFERRED, BCON_NEW("tags", "[", "{", "dc", "south", "}", "]"), 0));
  EXPECT(selects(op, &c, READ_SECONDARY,
                 BCON_NEW("tags", "[", "{", "dc", "west", "}", "]", "maxStalenessSeconds", BCON_INT64(INT64_MAX)), 1));
  bool seen[MEMBERS] = {0};
  for (int i = 0; i < 100; i++) {
    EXPECT(replica_set_select(op, c.set, READ_SECONDARY, NULL, &host, &err));
    for (int k = 0; k < MEMBERS; k++) seen[k] |= !strcmp(host, c.members[k].host);
  }
  EXPECT(!seen[0] && (seen[1] || seen[2])); // by chance among those that are near
  bson_t *soon = BCON_NEW("maxStalenessSeconds", BCON_INT32(10)), *odd = BCON_NEW("tags", "east");
  EXPECT(!replica_set_select(op, c.set, READ_SECONDARY, soon, &host, &err) && err.code == ERR_MaxStalenessOutOfRange);
  EXPECT(!replica_set_select(op, c.set, READ_SECONDARY, odd, &host, &err) && err.code == ERR_TypeMismatch);
  bson_destroy(soon);
  bson_destroy(odd);
  teardown(op, &c);
}

static void test_selection(void **state) {
  in_loop(selection, NULL);
}

static void failover(struct operation *op, void *arg) {
  struct cluster c;
  struct error err;
  setup(op, &c);
  EXPECT(selects(op, &c, READ_PRIMARY, NULL, 0));
  EXPECT(op_sleep(op, 20, &err));
  // The primary steps down; its successor has a greater term. A write that was refused is sent to it.
  c.members[0].role = SECONDARY;
  c.members[0].refuse_pings = true;
  c.members[1].role = PRIMARY;
  c.members[1].term = 2;
  int64_t from = clock_mono_ms();
  EXPECT(ping(op, &c, false, &err));
  EXPECT(c.members[0].pings == 1 && c.members[1].pings == 1);
  EXPECT(clock_mono_ms() - from < 5000);
  // The old one comes back and still believes to be primary: nobody believes it.
  c.members[0].role = PRIMARY;
  EXPECT(op_sleep(op, 20, &err));
  (void)error_set(&err, ERR_NotWritablePrimary, "look");
  replica_set_report(c.set, c.members[0].host, &err);
  EXPECT(op_sleep(op, 50, &err));
  EXPECT(selects(op, &c, READ_PRIMARY, NULL, 1));
  // One that hands over refuses for a while and says all the time that it is primary.
  c.members[1].refuse_first = 8;
  EXPECT(ping(op, &c, false, &err));
  // Nobody is primary: the call waits until its deadline.
  c.members[0].role = c.members[1].role = SECONDARY;
  c.members[1].refuse_pings = true;
  EXPECT(op_sleep(op, 20, &err));
  op_deadline_in(op, 300, ERR_MaxTimeMSExpired);
  EXPECT(!ping(op, &c, true, &err) && err.code == ERR_MaxTimeMSExpired);
  op->deadline_ms = OPERATION_NO_DEADLINE;
  teardown(op, &c);
}

static void test_failover(void **state) {
  in_loop(failover, NULL);
}

struct late {
  struct fake *f;
  int64_t after_ms;
};

static void become_primary(struct operation *op, void *arg) {
  struct late *l = arg;
  struct error err;
  EXPECT(op_sleep(op, l->after_ms, &err));
  l->f->role = PRIMARY;
  l->f->term = 9;
}

static void waiting(struct operation *op, void *arg) {
  struct cluster c;
  struct error err;
  setup(op, &c);
  c.members[0].role = SECONDARY;
  struct late l = {.f = &c.members[2], .after_ms = 250};
  (void)operation_start(op->loop, "late", become_primary, &l);
  int64_t from = clock_mono_ms();
  EXPECT(ping(op, &c, false, &err));
  int64_t took = clock_mono_ms() - from;
  EXPECT(c.members[2].pings == 1 && took >= 200 && took < 10000);
  teardown(op, &c);
}

static void test_waits_for_a_primary(void **state) {
  in_loop(waiting, NULL);
}

// A primary that was stopped accepts connections and never answers; one that was cut off the network does not even
// accept any more, but nobody says so on those that are there. The call that hangs on it ends when its successor is
// seen.
static void silence(struct operation *op, bool cut_off) {
  struct cluster c;
  struct error err;
  setup(op, &c);
  EXPECT(selects(op, &c, READ_PRIMARY, NULL, 0));
  EXPECT(op_sleep(op, 20, &err));
  c.members[0].role = SILENT;
  if (cut_off) server_stop_accepting(c.members[0].server);
  struct late l = {.f = &c.members[1],
                   .after_ms = cut_off ? 4500 : 250}; // after a hello that timed out and a refused one
  (void)operation_start(op->loop, "late", become_primary, &l);
  (void)error_set(&err, ERR_NetworkTimeout, "look");
  op_deadline_in(op, 60000, ERR_MaxTimeMSExpired);
  EXPECT(ping(op, &c, true, &err));
  EXPECT(c.members[0].pings == 1 && c.members[1].pings == 1);
  op->deadline_ms = OPERATION_NO_DEADLINE;
  teardown(op, &c);
}

enum { CALLS = 3 };

struct call {
  struct cluster *c;
  bool ok, ended;
};

static void ping_once(struct operation *op, void *arg) {
  struct call *call = arg;
  struct error err;
  call->ok = ping(op, call->c, false, &err);
  call->ended = true;
}

// There is one connection for these calls: the others hang while they make theirs, and are sent to the successor.
static void connecting(struct operation *op, void *arg) {
  struct cluster c;
  struct error err;
  setup(op, &c);
  EXPECT(selects(op, &c, READ_PRIMARY, NULL, 0));
  EXPECT(op_sleep(op, 20, &err));
  c.members[0].role = STOPPED;
  struct call calls[CALLS] = {0};
  for (int i = 0; i < CALLS; i++) {
    calls[i].c = &c;
    (void)operation_start(op->loop, "call", ping_once, &calls[i]);
  }
  struct late l = {.f = &c.members[1], .after_ms = 250};
  (void)operation_start(op->loop, "late", become_primary, &l);
  int64_t from = clock_mono_ms();
  for (int i = 0; i < CALLS; i++) {
    while (!calls[i].ended && op_sleep(op, 5, &err)) continue;
  }
  EXPECT(clock_mono_ms() - from < 9000); // not so long as a connection may take to be made
  EXPECT(calls[0].ok + calls[1].ok + calls[2].ok == CALLS - c.members[0].pings);
  EXPECT(c.members[1].pings == CALLS - c.members[0].pings && c.members[0].pings <= 1);
  teardown(op, &c);
}

static void stopped(struct operation *op, void *arg) {
  silence(op, false);
}

static void cut_off(struct operation *op, void *arg) {
  silence(op, true);
}

static void test_silent_primary(void **state) {
  in_loop(stopped, NULL);
  in_loop(cut_off, NULL);
  in_loop(connecting, NULL);
}

static void foreign(struct operation *op, void *arg) {
  struct cluster c;
  struct error err;
  const char *host;
  setup(op, &c);
  c.members[0].role = c.members[1].role = c.members[2].role = OTHER_SET;
  EXPECT(op_sleep(op, 50, &err));
  EXPECT(!replica_set_primary(c.set));
  op_deadline_in(op, 100, ERR_MaxTimeMSExpired);
  EXPECT(!replica_set_select(op, c.set, READ_NEAREST, NULL, &host, &err));
  op->deadline_ms = OPERATION_NO_DEADLINE;
  teardown(op, &c);
}

static void test_other_set(void **state) {
  in_loop(foreign, NULL);
}

static void test_parse(void **state) {
  struct arena *a = arena_new();
  struct error err;
  const char *name, **hosts;
  size_t n;
  assert_true(replica_set_parse(a, "rs/a:1,b", &name, &hosts, &n, &err));
  assert_string_equal(name, "rs");
  assert_int_equal(n, 2);
  assert_string_equal(hosts[0], "a:1");
  assert_string_equal(hosts[1], "b:27017");
  static const char *const bad[] = {"", "a:1", "/a:1", "rs/", "rs/,"};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    assert_false(replica_set_parse(a, bad[i], &name, &hosts, &n, &err));
    assert_int_equal(err.code, ERR_FailedToParse);
  }
  arena_free(a);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_parse),          cmocka_unit_test(test_selection),
      cmocka_unit_test(test_failover),       cmocka_unit_test(test_waits_for_a_primary),
      cmocka_unit_test(test_silent_primary), cmocka_unit_test(test_other_set),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
