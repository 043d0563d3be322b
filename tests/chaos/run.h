// One round of a chaos run: what all its threads share.
#ifndef SHARDLET_CHAOS_RUN_H
#define SHARDLET_CHAOS_RUN_H

#include <stdatomic.h>

#include "tests/chaos/fleet.h"
#include "tests/chaos/rng.h"

#define CHAOS_DB "chaos"

enum place { PLACE_HASHED, PLACE_RANGED, PLACES }; // {_id: "hashed"}; {k: 1}. Each document's k is its _id.

struct registers; // work_register.c
struct lists;     // work_list.c
struct sets;      // work_set.c
struct counters;  // work_counter.c

struct run {
  uint64_t seed;
  struct fleet fleet;
  struct report report;
  atomic_bool stop;
  struct registers *registers;
  struct lists *lists;
  struct sets *sets;
  struct counters *counters;
};

struct worker { // a thread with a client of its own
  struct run *run;
  const char *name;
  int id;
  struct rng rng;
  mongoc_client_t *client;
  void (*turn)(struct worker *w); // called again and again until the run stops
  pthread_t thread;
  int64_t next_value; // unique values: id in the upper digits
  void *own;
};

// --- workers.c ---
enum { MAX_WORKERS = 24 };
struct workers {
  struct worker list[MAX_WORKERS];
  int n;
};
void workers_start(struct workers *ws, struct run *run);
void workers_stop(struct workers *ws); // after run->stop is set: waits for all of them

// --- the workloads ---
void registers_setup(struct run *run);
void registers_turn(struct worker *w);
void registers_check(struct run *run); // after the end; through a router, and each history
void lists_setup(struct run *run);
void lists_turn(struct worker *w);
void lists_check(struct run *run);
void sets_setup(struct run *run);
void sets_turn(struct worker *w);
void sets_end_turn(struct worker *w);
void sets_scan_turn(struct worker *w);
void sets_check(struct run *run);
void counters_setup(struct run *run);
void counters_turn(struct worker *w);
void counters_check(struct run *run);
bool bank_setup(struct run *run);
void bank_turn(struct worker *w);
void bank_check(struct run *run);
void session_turn(struct worker *w); // reads of secondaries in causally consistent sessions
void session_end(struct worker *w);

// --- chunks.c: the collections, their moves, splits and merges ---
bool chunks_setup(struct run *run);
void chunks_turn(struct worker *w);
bool chunks_settle(struct run *run); // no balancer, no move under way

// --- final.c: what must hold when everything has come to rest ---
void final_checks(struct run *run);

#endif
