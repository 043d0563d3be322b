// Migrations on sets of three members: the primary of donor, recipient or config server is killed, asked to step down,
// or stopped, while a move stands at each line of the log (DESIGN section 6), under writers. Its successor must go on:
// the move ends, no acknowledged write is lost or doubled, and the next moves succeed.
//
// SHARDLET_ALL_CASES=1 runs every combination, not one in three.
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "tests/integration/moves.h"
#include "tests/integration/sets.h"

enum { WRITERS = 2, MEMBERS = 3 };

static struct set_cluster cluster;
static mongoc_client_t *router;

static int start(void **state) {
  set_cluster_start(&cluster, MEMBERS,
                    "--setParameter enableTestCommands=true --setParameter orphanCleanupDelaySecs=0 "
                    "--setParameter receiveChunkWaitForRangeDeleterTimeoutMS=30000");
  router = client_of(&cluster.routers[0]);
  moves_setup(router);
  return 0;
}

static int stop(void **state) {
  mongoc_client_destroy(router);
  set_cluster_stop(&cluster);
  return 0;
}

static void wait_until_settled(void) {
  moves_wait_settled(router, set_primary(&cluster.shards[0]), set_primary(&cluster.shards[1]));
}

// --- each line, each set ---

static const struct {
  const char *point;
  bool at_recipient;
  const char *after;
} lines[] = {
    {"moveChunkHangAtStep3", false, "line 1 of the donor, the recipient begins"},
    {"migrateThreadHangAtStep3", true, "line 2, the file is staged"},
    {"migrateThreadHangAtStep4", true, "line 2, the clone is complete"},
    {"moveChunkHangAtStep4", false, "line 2, little is left to transfer"},
    {"migrateThreadHangAtStep7", true, "line 4, the file is adopted"},
    {"moveChunkHangAtStep5", false, "line 4, the donor knows of it"},
    {"hangBeforeLeavingCriticalSection", false, "line 6"},
};

enum { LINES = sizeof lines / sizeof *lines, VICTIMS = 3, WAYS = 2 };

static void interrupt(int line, struct set *victim, bool kill) {
  int owner = moves_owner(router);
  struct set *donor = &cluster.shards[owner], *recipient = &cluster.shards[1 - owner];
  struct process *at = set_primary(lines[line].at_recipient ? recipient : donor);
  struct mover m;
  mover_start_until(&m, &cluster.routers[1], 1 - owner, at, lines[line].point);
  wait_ms(50); // some writes more
  if (kill)
    (void)set_kill_primary(victim);
  else
    (void)set_step_down_primary(victim);
  if (process_runs(at)) (void)point_set(at, lines[line].point, "off");
  mover_join(&m);
  set_restart_all(victim);
}

static void each_line(void **state) {
  static const struct process *routers[WRITERS] = {&cluster.routers[0], &cluster.routers[1]};
  bool all = getenv("SHARDLET_ALL_CASES") != NULL;
  for (int i = 0; i < LINES * VICTIMS * WAYS; i++) {
    int line = i / (VICTIMS * WAYS), who = i / WAYS % VICTIMS;
    bool kill = i % WAYS == 0;
    if (!all && (line + who + !kill) % 3 != 0) continue; // every line, every set, both ways
    int owner = moves_owner(router);
    struct set *victims[VICTIMS] = {&cluster.shards[owner], &cluster.shards[1 - owner], &cluster.config};
    static const char *const names[VICTIMS] = {"donor", "recipient", "config server"};
    print_message("after %s: the %s's primary %s\n", lines[line].after, names[who], kill ? "is killed" : "steps down");
    struct writers *w = writers_start(routers, WRITERS);
    interrupt(line, victims[who], kill);
    moves_until_on(router, 1 - moves_owner(router));
    writers_stop(w);
    wait_until_settled();
    writers_verify(w, router);
    writers_free(w);
    moves_delete_all(router);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(each_line),
  };
  return cmocka_run_group_tests(tests, start, stop);
}
