// Runs a plan: scan, ownership filter, filter, sort; counts what it examines.
//
// An executor never yields by itself. executor_next() answers EXEC_PAUSE when its operation has had the thread for long
// enough; the caller then does what must be done before others run (a writer proposes what it has) and calls
// executor_pause(), after which the collection may have changed.
#ifndef SHARDLET_NODE_EXECUTOR_H
#define SHARDLET_NODE_EXECUTOR_H

#include "common/node/planner.h"

enum exec_status { EXEC_ROW, EXEC_END, EXEC_PAUSE, EXEC_ERROR };

struct exec_row {
  const bson_t *doc; // valid until the next call
  uint32_t file;     // where it is; not known (0) when rows are sorted after the scan
  int64_t rid;
};

struct exec_counters {
  int64_t keys, docs;   // examined
  int64_t filtered;     // left out because this shard does not own them
  int64_t scanned_rows; // rows the scan gave
  int64_t matched;      // rows that passed filter and ownership
  int64_t seeks;
  int64_t pauses;
  int64_t sorted_bytes;
  int64_t micros; // time spent in executor_next()
};

struct executor;

// q, p and x must live as long as `a`. The executor holds the collection and ends with the arena.
struct executor *executor_open(struct arena *a, struct node *n, struct collection *c, const struct query *q,
                               const struct plan *p, struct access *x, struct error *err);
// op NULL: never EXEC_PAUSE. want: how many rows of a blocking sort are needed at most, see executor_limit().
enum exec_status executor_next(struct executor *e, const struct operation *op, struct exec_row *row, struct error *err);
// Keeps only the first `n` rows of a sort (skip + limit); before the first executor_next(). 0 = all.
void executor_limit(struct executor *e, int64_t n);
// Keeps the position; nothing is active in the store until the next executor_next(). The row stays valid for no longer.
void executor_save(struct executor *e);
// Saves and lets others run; then checks that the collection is still there and the operation goes on.
bool executor_pause(struct operation *op, struct executor *e, struct error *err);
// After any other wait: is the collection still there, may the access still be used?
bool executor_alive(const struct executor *e, struct error *err);
// Ends the scan before its arena goes.
void executor_close(struct executor *e);
void executor_counters(const struct executor *e, struct exec_counters *out);
bool executor_at_end(const struct executor *e);
struct collection *executor_collection(const struct executor *e);

// Whether the shard owns the document; true where nothing is filtered.
bool access_owns(const struct access *x, struct arena *scratch, const bson_t *doc);

#endif
