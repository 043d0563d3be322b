// Read and write concerns on sets of three: what they wait for, what refuses them, and their defaults.
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
  UNKNOWN_MODE = 79,
  UNSATISFIABLE = 100,
  TIMED_OUT = 64,
  FAILED_TO_PARSE = 9,
  INVALID_OPTIONS = 72,
};

static struct set_cluster cluster;

// --- write concerns ---

static void give_modes(void) {
  struct raw r = raw_dial(set_primary(&cluster.shards[0]));
  bson_t reply;
  assert_true(raw_command(&r, "admin", &reply, "{'replSetGetConfig':1}"));
  int version = (int)reply_i64(&reply, "config.version");
  bson_destroy(&reply);
  char members[600] = "";
  size_t n = 0;
  for (int i = 0; i < MEMBERS; i++)
    n += (size_t)snprintf(members + n, sizeof members - n,
                          "%s{'_id':%d,'host':'127.0.0.1:%d','tags':{'node':'m%d','dc':'%s'}}", i ? "," : "", i,
                          cluster.shards[0].members[i].port, i, i < 2 ? "east" : "west");
  assert_int_equal(raw_code(&r, "admin",
                            "{'replSetReconfig':{'_id':'sh1','version':%d,'members':[%s],'settings':{"
                            "'electionTimeoutMillis':%d,'getLastErrorModes':{'both':{'dc':2},'all':{'node':3},"
                            "'never':{'dc':3}}}}}",
                            version + 1, members, SET_ELECTION_MS),
                   0);
  raw_close(&r);
}

struct concern_case {
  const char *concern;
  int code;
};

static const struct concern_case concerns[] = {{"{'w':1}", 0},
                                               {"{'w':3}", 0},
                                               {"{'w':'majority','j':true}", 0},
                                               {"{'w':2,'j':true,'wtimeout':10000}", 0},
                                               {"{'w':'both'}", 0},
                                               {"{'w':'all','wtimeout':10000}", 0},
                                               {"{'w':{'dc':2}}", 0},
                                               {"{'w':'never'}", UNSATISFIABLE},
                                               {"{'w':4}", UNSATISFIABLE},
                                               {"{'w':'nobody'}", UNKNOWN_MODE},
                                               {"{'w':51}", FAILED_TO_PARSE},
                                               {"{'w':-1}", FAILED_TO_PARSE},
                                               {"{'w':1,'wtimeout':'soon'}", 14},
                                               {"{'fsync':true,'j':true}", FAILED_TO_PARSE}};

static void try_concerns(const struct process *p) {
  struct raw r = raw_dial(p);
  for (size_t i = 0; i < sizeof concerns / sizeof *concerns; i++) {
    int code = raw_code(&r, "plain", "{'insert':'w','documents':[{'a':1}],'writeConcern':%s}", concerns[i].concern);
    if (code != concerns[i].code) fail_msg("%s %s: code %d", p->name, concerns[i].concern, code);
  }
  assert_int_equal(raw_code(&r, "plain",
                            "{'update':'w','updates':[{'q':{},'u':{'$set':{'b':1}}}],"
                            "'writeConcern':{'w':4}}"),
                   UNSATISFIABLE);
  assert_int_equal(raw_code(&r, "plain", "{'delete':'w','deletes':[{'q':{},'limit':1}],'writeConcern':{'w':4}}"),
                   UNSATISFIABLE);
  assert_int_equal(raw_code(&r, "plain",
                            "{'findAndModify':'w','query':{},'update':{'$set':{'b':2}},"
                            "'writeConcern':{'w':4}}"),
                   UNSATISFIABLE);
  assert_int_equal(raw_code(&r, "plain",
                            "{'createIndexes':'w','indexes':[{'key':{'%s':1},'name':'%s_1'}],"
                            "'writeConcern':{'w':4}}",
                            p->name, p->name),
                   UNSATISFIABLE);
  raw_close(&r);
}

static void write_concerns(void **state) {
  give_modes();
  struct raw r = raw_dial(&cluster.routers[0]);
  assert_int_equal(raw_code(&r, "admin", "{'enableSharding':'plain','primaryShard':'sh1'}"), 0);
  try_concerns(set_primary(&cluster.shards[0]));
  try_concerns(&cluster.routers[0]);
  assert_int_equal(raw_code(&r, "admin",
                            "{'bulkWrite':1,'ops':[{'insert':0,'document':{}}],'nsInfo':[{'ns':'plain.w'}],"
                            "'writeConcern':{'w':4}}"),
                   UNSATISFIABLE);
  raw_close(&r);
}

// One member is stopped: a write that wants it too is acknowledged as late, with the write done.
static void write_timeout(void **state) {
  struct process *late = set_secondary(&cluster.shards[0], 0);
  set_pause(&cluster.shards[0], late, true);
  struct raw r = raw_dial(&cluster.routers[0]);
  bson_t reply;
  assert_true(
      raw_command(&r, "plain", &reply, "{'insert':'t','documents':[{'_id':1}],'writeConcern':{'w':3,'wtimeout':300}}"));
  set_pause(&cluster.shards[0], late, false);
  bson_iter_t it, found;
  assert_int_equal(reply_i64(&reply, "writeConcernError.code"), TIMED_OUT);
  assert_true(bson_iter_init(&it, &reply) &&
              bson_iter_find_descendant(&it, "writeConcernError.errInfo.wtimeout", &found) && bson_iter_bool(&found));
  assert_int_equal(reply_i64(&reply, "n"), 1);
  bson_destroy(&reply);
  raw_close(&r);
}

static void read_concerns(void **state) {
  struct raw router = raw_dial(&cluster.routers[0]), secondary = raw_dial(set_secondary(&cluster.shards[0], 0));
  const char *const levels[] = {"local", "available", "majority", "linearizable"};
  for (size_t i = 0; i < sizeof levels / sizeof *levels; i++) {
    assert_int_equal(raw_code(&router, "plain", "{'find':'w','readConcern':{'level':'%s'}}", levels[i]), 0);
    int code = raw_code(&secondary, "plain",
                        "{'find':'w','readConcern':{'level':'%s'},'$readPreference':{'mode':'secondary'}}", levels[i]);
    assert_int_equal(code, i == 3 ? 10107 : 0);
    code = raw_code(&router, "plain", "{'insert':'w','documents':[{}],'readConcern':{'level':'%s'}}", levels[i]);
    assert_int_equal(code, i == 0 ? 0 : INVALID_OPTIONS);
  }
  assert_int_equal(raw_code(&router, "plain", "{'find':'w','readConcern':{'level':'snapshot'}}"), INVALID_OPTIONS);
  assert_int_equal(raw_code(&router, "plain", "{'find':'w','readConcern':{'level':'best'}}"), 2);
  assert_int_equal(raw_code(&secondary, "plain",
                            "{'find':'w','readConcern':{'afterClusterTime':{'$timestamp':{'t':4000000000,'i':1}}},"
                            "'$readPreference':{'mode':'secondary'}}"),
                   INVALID_OPTIONS);
  raw_close(&secondary);
  raw_close(&router);
}

static void default_concerns(void **state) {
  struct raw r = raw_dial(&cluster.routers[0]), shard = raw_dial(set_primary(&cluster.shards[0]));
  bson_t reply;
  assert_true(raw_command(&r, "admin", &reply, "{'getDefaultRWConcern':1}"));
  bson_destroy(&reply);
  assert_int_equal(raw_code(&shard, "admin", "{'getDefaultRWConcern':1}"), 51301);
  assert_int_equal(raw_code(&r, "admin", "{'setDefaultRWConcern':1}"), 2);
  assert_int_equal(raw_code(&r, "admin", "{'setDefaultRWConcern':1,'defaultWriteConcern':{'w':0}}"), 2);
  assert_int_equal(raw_code(&r, "admin", "{'setDefaultRWConcern':1,'defaultWriteConcern':{'w':4}}"), 0);
  assert_int_equal(raw_code(&r, "plain", "{'insert':'w','documents':[{'a':1}]}"), UNSATISFIABLE);
  assert_int_equal(raw_code(&r, "plain", "{'insert':'w','documents':[{'a':1}],'writeConcern':{'w':1}}"), 0);
  assert_int_equal(raw_code(&r, "admin",
                            "{'setDefaultRWConcern':1,'defaultWriteConcern':{'w':'majority'},"
                            "'defaultReadConcern':{'level':'majority'}}"),
                   0);
  assert_true(raw_command(&r, "admin", &reply, "{'getDefaultRWConcern':1}"));
  bson_iter_t it, level;
  assert_true(bson_iter_init(&it, &reply) && bson_iter_find_descendant(&it, "defaultReadConcern.level", &level));
  assert_string_equal(bson_iter_utf8(&level, NULL), "majority");
  bson_destroy(&reply);
  assert_int_equal(raw_code(&r, "plain", "{'insert':'w','documents':[{'a':1}]}"), 0);
  assert_int_equal(raw_code(&r, "plain", "{'find':'w'}"), 0);
  assert_int_equal(raw_code(&r, "admin", "{'setDefaultRWConcern':1,'defaultWriteConcern':{}}"), 20);
  raw_close(&shard);
  raw_close(&r);
}

static int start(void **state) {
  set_cluster_start(&cluster, MEMBERS, "");
  *state = &cluster;
  return 0;
}

int main(void) {
  mongoc_init();
  const struct CMUnitTest tests[] = {cmocka_unit_test(write_concerns), cmocka_unit_test(write_timeout),
                                     cmocka_unit_test(read_concerns), cmocka_unit_test(default_concerns)};
  int failed = cmocka_run_group_tests(tests, start, set_cluster_teardown);
  mongoc_cleanup();
  return failed;
}
