// The cluster under test: a config set, shards, routers; every member known to the others by its proxy's port.
//
// Belongs to the main thread (daemons die with the thread that started them), but for what is said to be safe. Nothing
// here asserts: errors are told and counted, and fleet_end() ends every process by its pid whatever happened before.
#ifndef SHARDLET_CHAOS_FLEET_H
#define SHARDLET_CHAOS_FLEET_H

#include "tests/chaos/proxy.h"
#include "tests/chaos/report.h"
#include "tests/integration/harness.h"

enum { MAX_SETS = 5, MAX_MEMBERS = 7, FLEET_ROUTERS = 2 };

enum daemon_state { STATE_UP, STATE_STOPPED, STATE_ENDING, STATE_DOWN }; // STOPPED: by SIGSTOP; ENDING: was told to

struct member_daemon {
  struct process process;
  int set, member; // set -1: a router
  int proxy_port;
  enum daemon_state state;
  int64_t started_ms, ending_since_ms;
  bool small_disk;          // its dbpath is a file system of its own that can be filled
  int64_t may_end_until_ms; // its disk is or was just full: it may end by itself, with an exit code
};

struct fleet_plan {
  int shards, members, config_members;
  bool small_disks; // of the last shard's members, where this user may mount
};

struct fleet {
  struct report *report;
  struct proxies *proxies;
  char folder[256]; // data and logs
  struct fleet_plan plan;
  struct member_daemon daemons[MAX_DAEMONS];
  int n;
};

// Starts everything and adds the shards. false: said in the report as a violation; fleet_end() is still to be called.
bool fleet_start(struct fleet *f, const struct fleet_plan *plan, const char *folder, struct report *r);
// Heals nothing; SIGCONT and SIGTERM to all that runs. A daemon that does not end with exit code 0 is a violation.
void fleet_end(struct fleet *f);

int fleet_sets(const struct fleet *f);                                            // 0 is the config set
struct member_daemon *fleet_member(struct fleet *f, int set, int member);         // safe anywhere
struct member_daemon *fleet_router(struct fleet *f, int i);                       // safe anywhere
const char *fleet_set_name(int set, char buf[8]);                                 // "cfg", "sh1"
bool fleet_set_is_well(struct fleet *f, int set);                                 // every member has caught up
struct member_daemon *fleet_primary(struct fleet *f, int set);                    // asks; NULL = none answers as one
mongoc_client_t *fleet_direct_client(const struct member_daemon *d, int wait_ms); // not through its proxy
mongoc_client_t *fleet_router_client(struct fleet *f, int routers); // bit i: router i; for workloads; safe anywhere

void daemon_kill(struct fleet *f, struct member_daemon *d);          // kill -9
void daemon_wipe(struct fleet *f, struct member_daemon *d);          // and removes its data
void daemon_end(struct fleet *f, struct member_daemon *d);           // SIGTERM; fleet_poll() sees its end
void daemon_start(struct fleet *f, struct member_daemon *d);         // nothing when it runs
void daemon_stop(struct fleet *f, struct member_daemon *d);          // SIGSTOP
void daemon_go_on(struct fleet *f, struct member_daemon *d);         // SIGCONT
void daemon_fill_disk(struct member_daemon *d, int64_t leave_bytes); // with 0 left it may end by itself
void daemon_free_disk(struct fleet *f, struct member_daemon *d);     // starts it again if it has ended
// Looks for daemons that ended: without having been told to, it is a violation.
void fleet_poll(struct fleet *f);
// Everything runs, nothing is cut, each set has a primary. false (told as a violation) after `ms`.
bool fleet_heal(struct fleet *f, int ms);

#endif
