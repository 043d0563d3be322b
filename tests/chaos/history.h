// What happened to one key: every operation with when it was called, when it was answered, and what was said.
//
// The checkers work on these alone, without clients or daemons.
#ifndef SHARDLET_CHAOS_HISTORY_H
#define SHARDLET_CHAOS_HISTORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum op_kind {
  OP_READ,       // saw `value`
  OP_WRITE,      // made it `value`
  OP_CAS,        // made it `value` where it was `expected`
  OP_CAS_MISSED, // saw that it was not `expected`
  OP_APPEND,     // added `value` to the list
  OP_READ_LIST,  // saw the list
};

#define NEVER INT64_MAX // of `done`: nobody knows whether and when it took effect

struct op {
  enum op_kind kind;
  int worker;
  int64_t called, done; // monotonic nanoseconds
  int64_t value, expected;
  int64_t version; // of the document, as a read or findAndModify saw it: counts its writes; -1 = not known
  bool strict;     // a read that must not be stale (majority or linearizable on a primary)
  int64_t *list;   // of OP_READ_LIST, owned by the history
  size_t n_list;
};

struct history {
  int64_t key;
  struct op *ops;
  size_t n, cap;
};

struct verdict { // of a checker
  bool ok;
  char text[600]; // what is wrong
};

int64_t now_ns(void);
void history_add(struct history *h, const struct op *op);
void history_free(struct history *h);
void history_write(const struct history *h, FILE *f); // a line an operation, in the order of their calls
// Fills in the verdict and returns false.
bool verdict_set(struct verdict *v, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#endif
