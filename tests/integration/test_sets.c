// What clients rely on with sets of three: retryable writes over failovers and moves, a primary that stood still, hello
// streams, the oplog, partial results.
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "proto/message.h"
#include "tests/integration/moves.h"
#include "tests/integration/raw.h"
#include "tests/integration/sets.h"

enum {
  MEMBERS = 3,
  STEP_DOWNS = 3,
  STOPS = 5, // of a primary; STOPS in the environment says otherwise
  INVALID_OPTIONS = 72,
  TOO_OLD = 225,
  NOT_RETRYABLE = 50768,
  NOT_SUPPORTED = 115,
};

static struct set_cluster cluster;

// --- retryable writes ---

#define SESSION "'lsid':{'id':{'$binary':{'base64':'AAECAwQFBgcICQoLDA0ODw==','subType':'04'}}}"

struct retry {
  const char *command; // without lsid and txnNumber; with `db`
  const char *db;
  const char *path; // of the field that says what was done
  int64_t value;
};

static const struct retry retries[] = {
    {"'insert':'r','documents':[{'_id':50,'k':50},{'_id':51,'k':51}]", "retry", "n", 2},
    {"'update':'r','updates':[{'q':{'k':1},'u':{'$inc':{'n':1}}}]", "retry", "nModified", 1},
    {"'update':'r','updates':[{'q':{'_id':2},'u':{'$inc':{'n':1}}}]", "retry", "nModified", 1},
    {"'delete':'r','deletes':[{'q':{'k':3},'limit':1}]", "retry", "n", 1},
    {"'findAndModify':'r','query':{'k':4},'update':{'$inc':{'n':1}},'new':true", "retry", "value.n", 1},
    {"'findAndModify':'r','query':{'k':5},'remove':true", "retry", "value.k", 5},
    {"'update':'r','updates':[{'q':{'k':60},'u':{'$inc':{'n':1}},'upsert':true}]", "retry", "n", 1},
    {"'bulkWrite':1,'ops':[{'insert':0,'document':{'_id':70,'k':70}},{'update':0,'filter':{'k':6},"
     "'updateMods':{'$inc':{'n':1}}},{'delete':0,'filter':{'k':7}}],'nsInfo':[{'ns':'retry.r'}]",
     "admin", "nModified", 1},
};
enum { RETRIES = sizeof retries / sizeof *retries };

static void send_all(const char *when, bool again) {
  struct raw r = raw_dial(&cluster.routers[again ? 1 : 0]);
  for (int i = 0; i < RETRIES; i++) {
    // Another session for each, so that all of them stay repeatable.
    char lsid[] = SESSION;
    char *id = strstr(lsid, "AAECAwQF");
    id[0] = (char)('A' + i);
    bson_t reply;
    bool ok =
        raw_command(&r, retries[i].db, &reply, "{%s,%s,'txnNumber':{'$numberLong':'7'}}", retries[i].command, lsid);
    if (!ok || reply_i64(&reply, retries[i].path) != retries[i].value) {
      char *text = bson_as_relaxed_extended_json(&reply, NULL);
      fail_msg("%s: %s: %s", when, retries[i].command, text);
    }
    bson_destroy(&reply);
  }
  raw_close(&r);
}

// What must be true after each of them has had its effect once.
static void check_effects(const char *when) {
  mongoc_client_t *c = client_of(&cluster.routers[0]);
  static const struct {
    const char *filter;
    int64_t n;
  } checks[] = {{"{\"k\":{\"$in\":[50,51,60,70]}}", 4},
                {"{\"k\":{\"$in\":[1,2,4,6,60]},\"n\":1}", 5},
                {"{\"k\":{\"$in\":[3,5,7]}}", 0},
                {"{\"n\":{\"$gt\":1}}", 0}};
  for (size_t i = 0; i < sizeof checks / sizeof *checks; i++) {
    int64_t n = count_documents(c, "retry", "r", checks[i].filter);
    if (n != checks[i].n) fail_msg("%s: %s: %d", when, checks[i].filter, (int)n);
  }
  mongoc_client_destroy(c);
}

static void move_retried(const char *to) {
  mongoc_client_t *c = client_of(&cluster.routers[0]);
  must(c, "admin", "{'moveRange':'retry.r','min':{'k':0},'toShard':'%s'}", to);
  mongoc_client_destroy(c);
}

static void retryable_writes(void **state) {
  mongoc_client_t *c = client_of(&cluster.routers[0]);
  must(c, "admin", "{'balancerStop':1}");
  must(c, "admin", "{'enableSharding':'retry','primaryShard':'sh1'}");
  must(c, "admin", "{'shardCollection':'retry.r','key':{'k':1}}");
  must(c, "admin", "{'split':'retry.r','middle':{'k':0}}");
  for (int i = 0; i < 10; i++) must(c, "retry", "{'insert':'r','documents':[{'_id':%d,'k':%d}]}", i, i);
  send_all("at first", false);
  check_effects("at first");
  send_all("at once again", true);
  check_effects("at once again");
  struct process *was = set_kill_primary(&cluster.shards[0]);
  send_all("after a failover", true);
  check_effects("after a failover");
  process_launch(was);
  move_retried("sh2");
  send_all("after a move", true);
  check_effects("after a move");
  was = set_kill_primary(&cluster.shards[1]);
  send_all("after a move and a failover there", true);
  check_effects("after a move and a failover there");
  process_launch(was);
  move_retried("sh1");
  send_all("after a move back", true);
  check_effects("after a move back");
  mongoc_client_destroy(c);
}

static void not_retryable(void **state) {
  struct raw r = raw_dial(&cluster.routers[0]);
  assert_int_equal(raw_code(&r, "retry",
                            "{'insert':'r','documents':[{'_id':80,'k':-80}]," SESSION
                            ",'txnNumber':{'$numberLong':'9'}}"),
                   0);
  assert_int_equal(raw_code(&r, "retry",
                            "{'insert':'r','documents':[{'_id':81,'k':-81}]," SESSION
                            ",'txnNumber':{'$numberLong':'8'}}"),
                   TOO_OLD);
  assert_int_equal(raw_code(&r, "retry",
                            "{'update':'r','updates':[{'q':{'k':-80},'u':{'$inc':{'m':1}},'multi':true}]," SESSION
                            ",'txnNumber':{'$numberLong':'10'}}"),
                   INVALID_OPTIONS);
  assert_int_equal(raw_code(&r, "retry",
                            "{'delete':'r','deletes':[{'q':{'k':-90},'limit':0}]," SESSION
                            ",'txnNumber':{'$numberLong':'11'}}"),
                   INVALID_OPTIONS);
  assert_int_equal(raw_code(&r, "retry", "{'find':'r'," SESSION ",'txnNumber':{'$numberLong':'12'}}"), NOT_RETRYABLE);
  raw_close(&r);
}

// Errors that a driver may answer by a repetition say so, on direct connections too.
static void labels(void **state) {
  struct raw r = raw_dial(set_secondary(&cluster.shards[0], 0));
  bson_t reply;
  bson_iter_t it, label;
  assert_false(
      raw_command(&r, "retry", &reply, "{'insert':'x','documents':[{}]," SESSION ",'txnNumber':{'$numberLong':'1'}}"));
  assert_int_equal(reply_i64(&reply, "code"), 10107);
  assert_true(bson_iter_init(&it, &reply) && bson_iter_find_descendant(&it, "errorLabels.0", &label));
  assert_string_equal(bson_iter_utf8(&label, NULL), "RetryableWriteError");
  assert_true(bson_iter_init(&it, &reply) && bson_iter_find_descendant(&it, "topologyVersion.counter", &label));
  assert_true(bson_iter_init_find(&it, &reply, "operationTime") && bson_iter_init_find(&it, &reply, "$clusterTime"));
  bson_destroy(&reply);
  assert_false(raw_command(&r, "retry", &reply, "{'insert':'x','documents':[{}]}"));
  assert_false(bson_iter_init_find(&it, &reply, "errorLabels"));
  bson_destroy(&reply);
  raw_close(&r);
}

// --- stepping down ---

// On a slow machine nobody may win before the member stands again: then it is primary once more.
static void step_down_primary(void) {
  struct raw r = raw_dial(set_primary(&cluster.shards[0]));
  assert_int_equal(raw_code(&r, "admin", "{'replSetStepDown':5,'force':true}"), 0);
  raw_close(&r);
  (void)set_primary(&cluster.shards[0]);
}

// Nothing is lost and nothing done twice when primaries step down under writers.
static void step_down(void **state) {
  const struct process *const routers[] = {&cluster.routers[0], &cluster.routers[1]};
  mongoc_client_t *c = client_of(&cluster.routers[0]);
  moves_setup(c);
  struct writers *w = writers_start(routers, 2);
  for (int i = 0; i < STEP_DOWNS; i++) {
    wait_ms(1000);
    step_down_primary();
  }
  wait_ms(1000);
  writers_stop(w);
  writers_verify(w, c);
  print_message("%d step-downs, %d writes acknowledged\n", STEP_DOWNS, (int)writers_acknowledged(w));
  writers_free(w);
  mongoc_client_destroy(c);
}

// --- a primary that stood still ---

static int from_environment(const char *name, int otherwise) {
  return getenv(name) ? atoi(getenv(name)) : otherwise;
}

// The old primary goes on and is asked at once, on connections that it had before: it answers the new value, which only
// a barrier can have shown it, or an error.
static void read_from_the_past(struct raw *majority, struct raw *linearizable, int i) {
  const char *const levels[] = {"majority", "linearizable"};
  struct raw *const connections[] = {majority, linearizable};
  for (int k = 0; k < 2; k++) {
    bson_t reply;
    bool ok = raw_command(connections[k], "past", &reply,
                          "{'find':'c','filter':{'_id':1},'readConcern':{'level':'%s'}}", levels[k]);
    if (ok && reply_i64(&reply, "cursor.firstBatch.0.v") != i)
      fail_msg("%s: %d instead of %d", levels[k], (int)reply_i64(&reply, "cursor.firstBatch.0.v"), i);
    bson_destroy(&reply);
  }
}

static void wait_until_secondary(struct raw *r) {
  int64_t begun = now_ms();
  for (bool yes = false; !yes;) {
    bson_t reply;
    bson_iter_t it;
    assert_true(raw_command(r, "admin", &reply, "{'hello':1}"));
    yes = bson_iter_init_find(&it, &reply, "secondary") && bson_iter_bool(&it);
    bson_destroy(&reply);
    if (now_ms() - begun > 3000) fail_msg("a primary that was replaced does not step down");
    if (!yes) wait_ms(5);
  }
}

static void stopped_primary(void **state) {
  struct set *s = &cluster.shards[0];
  struct raw router = raw_dial(&cluster.routers[0]);
  assert_int_equal(raw_code(&router, "admin", "{'enableSharding':'past','primaryShard':'sh1'}"), 0);
  assert_int_equal(raw_code(&router, "past", "{'insert':'c','documents':[{'_id':1,'v':0}],'writeConcern':{'w':3}}"), 0);
  int n = from_environment("STOPS", STOPS);
  for (int i = 1; i <= n; i++) {
    struct process *old = set_primary(s);
    struct raw connections[4] = {raw_dial(old), raw_dial(old), raw_dial(old), raw_dial(old)};
    for (int k = 0; k < 4; k++) assert_int_equal(raw_code(&connections[k], "admin", "{'ping':1}"), 0);
    set_pause(s, old, true);
    struct raw new = raw_dial(set_primary(s));
    assert_int_equal(raw_code(&new, "past", "{'update':'c','updates':[{'q':{'_id':1},'u':{'$set':{'v':%d}}}]}", i), 0);
    // A write is on its way to it while it stands still.
    bson_t *write = BCON_NEW("insert", "lost", "documents", "[", "{", "_id", BCON_INT32(i), "}", "]"), reply;
    raw_send(&connections[2], "past", write, 0);
    set_pause(s, old, false);
    read_from_the_past(&connections[0], &connections[1], i);
    assert_true(raw_receive(&connections[2], 30000, &reply, NULL, NULL, NULL));
    if (reply_i64(&reply, "ok") == 1) fail_msg("a replaced primary acknowledged a write");
    bson_destroy(&reply);
    wait_until_secondary(&connections[3]);
    for (int k = 0; k < 4; k++) raw_close(&connections[k]);
    raw_close(&new);
    bson_destroy(write);
  }
  raw_close(&router);
}

// --- hello ---

static bson_t *hello_after(const bson_t *reply, int wait) {
  bson_iter_t it;
  bson_t *hello = BCON_NEW("hello", BCON_INT32(1), "maxAwaitTimeMS", BCON_INT32(wait));
  assert_true(bson_iter_init_find(&it, reply, "topologyVersion"));
  bson_append_iter(hello, NULL, 0, &it);
  return hello;
}

static void hello_waits(void **state) {
  struct process *const daemons[] = {set_primary(&cluster.shards[0]), set_primary(&cluster.config),
                                     &cluster.routers[0]};
  for (int i = 0; i < 3; i++) {
    struct raw r = raw_dial(daemons[i]);
    bson_t first, second;
    assert_true(raw_command(&r, "admin", &first, "{'hello':1}"));
    bson_t *hello = hello_after(&first, 400);
    int64_t begun = now_ms();
    assert_true(raw_run(&r, "admin", hello, &second));
    assert_true(now_ms() - begun >= 390);
    assert_int_equal(reply_i64(&second, "topologyVersion.counter"), reply_i64(&first, "topologyVersion.counter"));
    assert_int_equal(raw_code(&r, "admin", "{'hello':1,'maxAwaitTimeMS':10}"), 31368);
    bson_destroy(&first);
    bson_destroy(&second);
    bson_destroy(hello);
    raw_close(&r);
  }
}

// The stream says by itself that the primary stepped down, and goes on.
static void hello_streams(void **state) {
  struct process *p = set_primary(&cluster.shards[0]);
  struct raw r = raw_dial(p);
  bson_t first, next;
  uint32_t flags;
  int32_t id, response_to, last;
  assert_true(raw_command(&r, "admin", &first, "{'hello':1}"));
  bson_t *hello = hello_after(&first, 300);
  raw_send(&r, "admin", hello, MSG_EXHAUST_ALLOWED);
  last = r.last_id;
  for (int i = 0; i < 3; i++) {
    assert_true(raw_receive(&r, 5000, &next, &flags, &id, &response_to));
    assert_int_equal(flags & MSG_MORE_TO_COME, MSG_MORE_TO_COME);
    assert_int_equal(response_to, last);
    last = id;
    bson_destroy(&next);
  }
  assert_true(set_step_down_primary(&cluster.shards[0]) == p);
  bool primary = true;
  for (int64_t end = now_ms() + 5000; primary && now_ms() < end;) {
    bson_iter_t it;
    assert_true(raw_receive(&r, 5000, &next, &flags, &id, &response_to));
    primary = bson_iter_init_find(&it, &next, "isWritablePrimary") && bson_iter_bool(&it);
    if (!primary)
      assert_true(reply_i64(&next, "topologyVersion.counter") > reply_i64(&first, "topologyVersion.counter"));
    bson_destroy(&next);
  }
  assert_false(primary);
  bson_destroy(&first);
  bson_destroy(hello);
  raw_close(&r);
}

// --- the oplog ---

static void oplog_of(const struct process *p) {
  struct raw r = raw_dial(p);
  bson_t reply;
  const char *const ops[] = {"{'op':'i','ns':'logged.c','o._id':1}", "{'op':'u','ns':'logged.c','o2._id':1,'o.v':2}",
                             "{'op':'d','ns':'logged.c','o._id':1}", "{'op':'c','o.create':'c','ns':'logged.$cmd'}",
                             "{'op':'c','o.applyOps.ns':'logged.c'}"};
  for (size_t i = 0; i < sizeof ops / sizeof *ops; i++) {
    assert_true(raw_command(&r, "local", &reply,
                            "{'find':'oplog.rs','filter':%s,'sort':{'$natural':-1},'limit':1,"
                            "'$readPreference':{'mode':'secondaryPreferred'}}",
                            ops[i]));
    if (reply_i64(&reply, "cursor.firstBatch.0.v") != 2) fail_msg("%s: not in the oplog of %s", ops[i], p->name);
    bson_destroy(&reply);
  }
  assert_int_equal(raw_code(&r, "local",
                            "{'find':'oplog.rs','tailable':true,"
                            "'$readPreference':{'mode':'secondaryPreferred'}}"),
                   NOT_SUPPORTED);
  assert_true(raw_command(&r, "local", &reply,
                          "{'listCollections':1,'filter':{'name':'oplog.rs'},"
                          "'$readPreference':{'mode':'secondaryPreferred'}}"));
  assert_true(reply_i64(&reply, "cursor.firstBatch.0.options.capped") == 1);
  bson_destroy(&reply);
  assert_true(raw_command(&r, "local", &reply,
                          "{'aggregate':'oplog.rs','pipeline':[{'$collStats':{'storageStats':{}}}]"
                          ",'cursor':{},'$readPreference':{'mode':'secondaryPreferred'}}"));
  assert_true(reply_i64(&reply, "cursor.firstBatch.0.storageStats.maxSize") > 0);
  bson_destroy(&reply);
  raw_close(&r);
}

static void oplog(void **state) {
  struct raw r = raw_dial(&cluster.routers[0]);
  assert_int_equal(raw_code(&r, "admin", "{'enableSharding':'logged','primaryShard':'sh2'}"), 0);
  assert_int_equal(raw_code(&r, "logged", "{'insert':'c','documents':[{'_id':1,'v':1}]}"), 0);
  assert_int_equal(raw_code(&r, "logged", "{'update':'c','updates':[{'q':{'_id':1},'u':{'$inc':{'v':1}}}]}"), 0);
  assert_int_equal(raw_code(&r, "logged", "{'delete':'c','deletes':[{'q':{'_id':1},'limit':1}]}"), 0);
  assert_int_equal(raw_code(&r, "logged", "{'insert':'c','documents':[{'_id':2},{'_id':3}],'writeConcern':{'w':3}}"),
                   0);
  for (int i = 0; i < MEMBERS; i++) oplog_of(&cluster.shards[1].members[i]);
  raw_close(&r);
}

// --- the shell's helpers ---

static void in_shell(const char *node, const struct process *p, const char *script, const char *says) {
  char line[900], out[4000];
  (void)snprintf(line, sizeof line,
                 "%s tests/node_modules/mongosh/bin/mongosh.js --quiet --norc "
                 "'mongodb://127.0.0.1:%d/?directConnection=true' --eval '%s' 2>&1",
                 node, p->port, script);
  FILE *f = popen(line, "r");
  size_t n = fread(out, 1, sizeof out - 1, f);
  out[n] = 0;
  (void)pclose(f);
  if (!strstr(out, says)) fail_msg("%s on %s says: %s", script, p->name, out);
}

static bool find_node(char node[300]) {
  *node = 0;
  FILE *f = popen("tests/node.sh 2>/dev/null", "r");
  if (fgets(node, 300, f)) node[strcspn(node, "\n")] = 0;
  if (pclose(f) == 0 && *node) return true;
  print_message("no node.js for mongosh here: not tried\n");
  return false;
}

static void shell_helpers(void **state) {
  char node[300];
  if (!find_node(node)) return;
  struct process *p = set_primary(&cluster.shards[1]), *s = set_secondary(&cluster.shards[1], 0);
  in_shell(
      node, p,
      "rs.printReplicationInfo(); rs.printSecondaryReplicationInfo(); print(db.getReplicationInfo().logSizeMB > 0, "
      "rs.status().members.length, rs.conf().members.length, rs.hello().isWritablePrimary, "
      "db.getSiblingDB(\"local\").startup_log.countDocuments({}), "
      "db.getSiblingDB(\"local\").getCollectionNames().sort().join())",
      "true 3 3 true 1 oplog.rs,startup_log,system.replset");
  in_shell(node, p, "rs.printSecondaryReplicationInfo()", "replLag");
  in_shell(node, s, "rs.printReplicationInfo(); rs.freeze(1); rs.freeze(0); print(rs.status().ok)", "1");
  in_shell(node, s, "try { rs.syncFrom(\"a:1\") } catch (e) { print(e.codeName) }", "CommandNotSupported");
  in_shell(node, s, "try { db.adminCommand({replSetMaintenance: true}) } catch (e) { print(e.codeName) }",
           "CommandNotSupported");
  in_shell(node, s, "try { rs.stepDown() } catch (e) { print(e.codeName) }", "NotWritablePrimary");
  in_shell(node, p, "try { rs.remove(\"nobody:1\") } catch (e) { print(e.message) }", "nobody:1");
  in_shell(node, p, "try { rs.add(\"127.0.0.1:1\") } catch (e) { print(e.message) }", "127.0.0.1:1");
  in_shell(node, p, "const c = rs.conf(); c.settings.electionTimeoutMillis = 1600; print(rs.reconfig(c).ok)", "1");
  in_shell(node, p, "print(rs.stepDown(5, 5).ok)", "1");
  in_shell(node, &cluster.routers[0], "print(db.adminCommand({getLog: \"global\"}).log.length > 3)", "true");
}

// A primary does not make itself one that cannot be primary, unless it is forced to: then it hands over.
static void primary_without_priority(void **state) {
  char node[300];
  if (!find_node(node)) return;
  struct set *s = &cluster.shards[1];
  struct process *p = set_primary(s);
  static const char unelectable[] =
      "const me = db.hello().me, c = rs.conf(), own = c.members.find(m => m.host === me);";
  char script[600];
  (void)snprintf(script, sizeof script,
                 "%s own.priority = 0; try { rs.reconfig(c) } catch (e) { print(e.codeName, e.message) }", unelectable);
  in_shell(node, p, script, "NodeNotElectable This node, 127.0.0.1:");
  (void)snprintf(script, sizeof script,
                 "%s c.members = c.members.filter(m => m !== own); "
                 "try { rs.reconfig(c) } catch (e) { print(e.codeName) }",
                 unelectable);
  in_shell(node, p, script, "NodeNotFound");
  assert_true(set_primary(s) == p);
  (void)snprintf(script, sizeof script, "%s own.priority = 0; print(rs.reconfig(c, {force: true}).ok)", unelectable);
  in_shell(node, p, script, "1");
  struct process *other = set_other_primary(s, p);
  in_shell(node, other, "const c = rs.conf(); c.members.forEach(m => m.priority = 1); print(rs.reconfig(c).ok)", "1");
}

// --- partial results ---

static void partial_results(void **state) {
  mongoc_client_t *c = client_of(&cluster.routers[0]);
  must(c, "admin", "{'shardCollection':'retry.halves','key':{'k':1}}");
  must(c, "admin", "{'split':'retry.halves','middle':{'k':0}}");
  must(c, "admin", "{'moveRange':'retry.halves','min':{'k':0},'toShard':'sh2'}");
  for (int i = -10; i < 10; i++) must(c, "retry", "{'insert':'halves','documents':[{'_id':%d,'k':%d}]}", i, i);
  for (int i = 0; i < MEMBERS; i++) (void)process_end(&cluster.shards[1].members[i], SIGKILL);
  struct raw r = raw_dial(&cluster.routers[0]);
  bson_t reply;
  const char *const finds[] = {"{'find':'halves','allowPartialResults':true}",
                               "{'find':'halves','sort':{'k':-1},'allowPartialResults':true}"};
  for (int i = 0; i < 2; i++) {
    int64_t begun = now_ms();
    assert_true(raw_command(&r, "retry", &reply, "%s", finds[i]));
    assert_true(now_ms() - begun < 15000);
    assert_int_equal(reply_i64(&reply, "cursor.partialResultsReturned"), 1);
    assert_true(reply_i64(&reply, "cursor.firstBatch.9.k") < 0);
    assert_int_equal(reply_i64(&reply, "cursor.firstBatch.10.k"), -1);
    bson_destroy(&reply);
  }
  assert_true(raw_command(&r, "retry", &reply, "{'find':'halves','filter':{'k':5},'allowPartialResults':true}"));
  assert_int_equal(reply_i64(&reply, "cursor.partialResultsReturned"), 1);
  bson_destroy(&reply);
  assert_int_equal(raw_code(&r, "retry", "{'find':'halves','maxTimeMS':500}"), 50);
  raw_close(&r);
  set_restart_all(&cluster.shards[1]);
  (void)set_primary(&cluster.shards[1]);
  mongoc_client_destroy(c);
}

static int start(void **state) {
  set_cluster_start(&cluster, MEMBERS, "--setParameter orphanCleanupDelaySecs=0");
  *state = &cluster;
  return 0;
}

int main(void) {
  mongoc_init();
  const struct CMUnitTest tests[] = {cmocka_unit_test(retryable_writes),
                                     cmocka_unit_test(not_retryable),
                                     cmocka_unit_test(labels),
                                     cmocka_unit_test(step_down),
                                     cmocka_unit_test(oplog),
                                     cmocka_unit_test(hello_waits),
                                     cmocka_unit_test(hello_streams),
                                     cmocka_unit_test(stopped_primary),
                                     cmocka_unit_test(shell_helpers),
                                     cmocka_unit_test(primary_without_priority),
                                     cmocka_unit_test(partial_results)};
  int failed = cmocka_run_group_tests(tests, start, set_cluster_teardown);
  mongoc_cleanup();
  return failed;
}
