// The common part of everything that reads a collection: version check, plan, execution with pauses.
#ifndef SHARDLET_NODE_READING_H
#define SHARDLET_NODE_READING_H

#include "common/node/executor.h"
#include "common/node/query.h"
#include "common/node/virtual.h"

struct reading {
  struct node *node;
  const char *ns;
  struct query query; // filled by the caller before reading_open()
  struct access *access;
  struct collection *collection; // NULL: not there, nothing is read
  struct plan plan;
  struct executor *executor;    // NULL without a collection
  struct virtual_scan *virtual; // instead of all that: a collection made when it is read; NULL = it is not one
};

// Waits for the read concern, checks the versions, chooses a plan and opens it. Lives in `a`.
bool reading_open(struct request *r, struct arena *a, const char *ns, struct reading *out, struct error *err);
// The next document, NULL at the end. May yield.
bool reading_next(struct operation *op, struct reading *x, const bson_t **doc, struct error *err);
void reading_save(struct reading *x);
bool reading_at_end(const struct reading *x); // it is known that nothing follows

// --- find, as the find command and explain use it (crud_find.c) ---
struct find;
bool find_open(struct request *r, struct arena *a, const bson_t *command, const char *ns, struct find **out,
               struct error *err);
bool find_next(struct operation *op, void *ctx, const bson_t **doc, struct error *err);
struct reading *find_reading(struct find *f);
struct tree_shape;
void find_shape(const struct find *f, struct tree_shape *shape); // projection, skip and limit, for explain

// --- count and distinct (count_distinct.c) ---
bool count_open(struct request *r, struct arena *a, const bson_t *command, const char *ns, struct reading *out,
                struct error *err);
bool count_rows(struct operation *op, struct reading *x, int64_t *n, struct error *err);
bool distinct_open(struct request *r, struct arena *a, const bson_t *command, const char *ns, struct reading *out,
                   const char **key, struct error *err);
bool distinct_values(struct operation *op, struct reading *x, const char *key, bson_t *values, struct error *err);

// --- aggregate (aggregate.c) ---
struct pipeline;
struct aggregation;
bool aggregation_open(struct request *r, struct arena *a, const bson_t *command, const char *ns,
                      struct aggregation **out, struct error *err);
bool aggregation_next(struct operation *op, void *ctx, const bson_t **doc, struct error *err);
struct reading *aggregation_reading(struct aggregation *g);
// The stages that the plan does not answer; an empty array when it answers all.
const bson_t *aggregation_stages(struct arena *a, const struct aggregation *g);

#endif
