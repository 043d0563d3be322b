// What a run tells: counts of operations and faults, and violations with the evidence in a folder that is kept.
// Every function may be called from any thread.
#ifndef SHARDLET_CHAOS_REPORT_H
#define SHARDLET_CHAOS_REPORT_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum outcome { OUTCOME_OK, OUTCOME_FAILED, OUTCOME_UNKNOWN, OUTCOMES };
enum { MAX_TALLIES = 48 };

struct tally { // of one kind of operation or fault
  const char *name;
  int64_t counts[OUTCOMES];
};

struct report {
  pthread_mutex_t lock;
  char folder[256]; // violations.txt, histories; of this round
  FILE *log;        // events.log
  int64_t begun_ms;
  struct tally tallies[MAX_TALLIES];
  int n_tallies;
  int violations;
  atomic_llong last_write_ms, longest_gap_ms; // successful writes of any workload
};

void report_open(struct report *r, const char *folder);
void report_close(struct report *r);

// `kind`: a constant text, for example "register write" or "fault kill".
void report_count(struct report *r, const char *kind, enum outcome o);
void report_write_done(struct report *r); // a write was acknowledged now
void report_writes_begin(struct report *r);
void report_writes_end(struct report *r);

// A line of events.log (with the time since the round began), for reading a failure beside the daemons' logs.
void report_event(struct report *r, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
// Printed at once, counted, and written to violations.txt.
void report_violation(struct report *r, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
// Opens a file of evidence in the folder; the caller closes it. NULL when it cannot be made.
FILE *report_evidence(struct report *r, const char *name);

void report_print(struct report *r);

#endif
