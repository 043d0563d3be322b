// What the files of the node share among themselves; not for the daemons.
#ifndef SHARDLET_NODE_INTERNAL_H
#define SHARDLET_NODE_INTERNAL_H

#include "common/base/map.h"
#include "common/net/topology.h"
#include "common/node/node.h"
#include "common/node/rw_defaults.h"

struct opcounters {
  int64_t insert, query, update, remove, getmore, command;
};

// The node's state that no daemon looks at.
struct node_private {
  const struct node_options *options;
  struct repl_hooks repl_hooks; // the daemon's
  struct arena *arena;          // lives as long as the node
  const char *dbpath;
  struct map *creating; // local.c: ns -> collections whose creation is proposed and not applied yet
  struct map *reserved; // local.c: rids of new documents of `reserving`
  const struct write *reserving;
  uint64_t reserved_after; // its last proposal then
  struct map *usage;       // usage.c: collection uuid -> operations and their latencies
  struct map *builds;      // index_build.c: collection uuid -> running builds
  struct event builds_changed;
  struct event fiber_ended;
  size_t fibers;                       // of the node's own background work
  const struct initiation *initiation; // of --initiate; NULL = without it
  struct opcounters ops;
  int64_t started_wall_ms;
  struct topology topology; // hello.c
  struct rw_defaults defaults;
  bson_t *hello; // what it says of the set in this topology version; NULL = nothing yet
  bool stopping;
};

static inline struct node *request_node(const struct request *r) {
  return r->daemon;
}

// --- node.c ---
// Starts background work that node_stop() ends and waits for; fn's operation is killed then.
void node_background(struct node *n, const char *what, void (*fn)(struct operation *op, void *arg), void *arg);

// --- access.c: what surrounds every command on a collection ---

// Waits for what the read concern asks: afterClusterTime, and a barrier on a primary for majority and linearizable.
bool node_read_concern(struct request *r, struct error *err);
// The version check (hooks.enter). What it allows lives in `a` and is left when `a` goes. May yield.
bool node_enter(struct request *r, struct arena *a, const char *ns, bool write, struct access **out, struct error *err);
// In the uninterrupted step that acts: is what node_enter() said still so?
bool node_still(struct node *n, const struct access *x, bool write, struct error *err);
void node_leave(struct node *n, struct access *x); // before its arena goes; harmless twice
// Waits as the request's write concern asks after a write at log position `index`; a failure is appended to the reply
// as writeConcernError. Called when nothing else of the reply can fail any more.
void node_write_concern(struct request *r, uint64_t index, bson_t *reply);
// Refuses namespaces that clients may not write to.
bool node_writable_namespace(const struct request *r, const char *ns, struct error *err);
// Refuses a collation other than {locale: "simple"} in this document (a command or one of its statements).
bool collation_is_simple(const bson_t *doc, struct error *err);

// --- helpers.c ---
const bson_t *iter_child(struct arena *a,
                         const bson_iter_t *it); // view of an embedded document or array; {} for others
const bson_t *value_child(struct arena *a, const bson_value_t *v);
// A field that must be a document (or, with `array`, an array) when it is there. *out NULL = not there.
bool optional_doc(struct arena *a, const bson_t *doc, const char *field, bool array, const bson_t **out,
                  struct error *err);
// A field that must be a number >= 0 when it is there.
bool optional_count(const bson_t *doc, const char *field, int64_t *out, struct error *err);
// Runs unref on the collection when the arena goes, and references it now.
struct collection *collection_hold(struct arena *a, struct collection *c);
// A map that goes with the arena; its values are the caller's.
struct map *map_in_arena(struct arena *a);
// An arena that goes with `parent`, for memory that is reset row by row.
struct arena *arena_child(struct arena *parent);

// --- admission.c: the dispatcher's hooks ---
bool node_admit(void *daemon, struct request *r, struct error *err);
void node_finish(void *daemon, struct request *r, bson_t *reply, const struct error *err);

// --- hello.c ---
void node_topology_check(struct node *n); // bumps the topology version when hello says something else now

// --- parameters.c ---
void parameters_free(struct parameters *p);
// name=value from the command line.
bool parameters_set_text(struct node *n, const char *assignment, struct error *err);

// --- local.c ---
void local_role_changed(struct node *n); // forgets creations that were proposed
void local_free(struct node *n);

// --- usage.c: how much each collection and index is used ---
enum usage_kind { USAGE_READ, USAGE_WRITE, USAGE_COMMAND };
void usage_count(struct node *n, const uint8_t uuid[16], enum usage_kind kind, int64_t micros);
void usage_count_index(struct node *n, const uint8_t uuid[16], uint32_t index_id);
void usage_latency_stats(struct node *n, const uint8_t uuid[16], bson_t *out);
int64_t usage_index_ops(struct node *n, const uint8_t uuid[16], uint32_t index_id);
void usage_free(struct node *n);

// --- index_build.c ---
void index_builds_resume(struct node *n); // after a step-up: goes on with what an earlier primary left unfinished

// --- server_info in explain, stats ---
void node_append_server_info(const struct node *n, bson_t *out); // {host, port, version, gitVersion}

#endif
