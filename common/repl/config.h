// The configuration document of a set (rs.conf()).
#ifndef SHARDLET_REPL_CONFIG_H
#define SHARDLET_REPL_CONFIG_H

#include <bson/bson.h>

#include "common/base/arena.h"
#include "common/net/operation.h"

struct repl;

enum {
  DEFAULT_ELECTION_MS = 2000, // electionTimeoutMillis; raft's own timeout is half of it (it waits 1 to 2 times that)
  MIN_ELECTION_MS = 200,
};

const bson_t *config_load(struct repl *r, struct arena *a); // as applied; NULL = none
void config_applied(struct repl *r, const bson_t *entry);   // takes a new one over, if the entry has one
void config_reload(struct repl *r, struct arena *a);        // all applied data is another
// Writes it as an entry (creating the collection before, if need be) and waits until it is applied.
bool config_write(struct operation *op, struct repl *r, const bson_t *config, struct error *err);

// A full document out of what a user gave: defaults filled in, number types as MongoDB has them. err: what is wrong
// with it, as MongoDB says it.
bool config_normalize(const struct repl *r, struct arena *a, const bson_t *given, int64_t term, bson_t *out,
                      struct error *err);

struct config_member {
  int32_t id;
  const char *host;
  double priority;
  int64_t votes;
  bool hidden;
};
struct config_walk { // zeroed at first
  bson_iter_t it;    // at the present member
  bool begun;
};
bool config_next_member(const bson_t *config, struct config_walk *walk, struct config_member *out);
size_t config_members(const bson_t *config);
int64_t config_election_timeout(const bson_t *config);   // ms
int64_t config_heartbeat_interval(const bson_t *config); // ms; shown, but members talk more often
// Whether a set may go from one configuration to the other in one step. force: only what can never be.
bool config_may_follow(const bson_t *old, const bson_t *next, bool force, struct error *err);
// Whether this member is in the configuration, and may be primary by it: who founds a set, or leads it, has to.
bool config_elects(const struct repl *r, const bson_t *config, const char *self, struct error *err);

#endif
