// Watches a replica set from outside: which member is primary, who is alive, how far away. As a driver's monitor does.
#ifndef SHARDLET_NET_REPLICA_SET_H
#define SHARDLET_NET_REPLICA_SET_H

#include "common/net/command.h"
#include "common/net/remote.h"

struct replica_set;

// connection_string: "sh1/host:port,host:port". Monitoring (a hello a member every 10 s, every 500 ms while there is no
// primary and somebody waits) starts at once; the hosts given are seeds, the members are what the primary says.
struct replica_set *replica_set_watch(struct loop *l, struct remotes *r, const char *connection_string,
                                      struct error *err);
void replica_set_unwatch(struct replica_set *s);
const char *replica_set_name(const struct replica_set *s);
// "sh1/h1:p1,h2:p2" as the set itself tells it, or as given until it has answered.
const char *replica_set_string(const struct replica_set *s);
const char *replica_set_primary(const struct replica_set *s); // NULL = unknown now
bool replica_set_answers(const struct replica_set *s);        // a member that serves data answered when asked last
bool replica_set_parse(struct arena *a, const char *connection_string, const char **name, const char ***hosts,
                       size_t *n, struct error *err);

// Picks a member, waiting up to 20 s (or the deadline) for one that fits; err FailedToSatisfyReadPreference 133.
// preference: the $readPreference document or NULL for primary. *host stays valid for the operation.
bool replica_set_select(struct operation *op, struct replica_set *s, enum read_mode mode, const bson_t *preference,
                        const char **host, struct error *err);
// What a call on a host taught: not-primary and network errors make the monitor look again at once.
void replica_set_report(struct replica_set *s, const char *host, const struct error *err);

// remote_call() on the selected member. `idempotent`: network errors are retried on the next primary, three times, and
// not-primary errors for ten seconds; otherwise only failures that surely happened before execution are.
bool replica_set_call(struct operation *op, struct replica_set *s, enum read_mode mode, const bson_t *preference,
                      bool idempotent, const struct remote_command *cmd, const bson_t **reply, const char **host,
                      struct error *err);
// The same on the primary, as daemons talk to each other. timeout_ms 0: remote_call()'s own. reply may be NULL.
bool replica_set_call_primary(struct operation *op, struct replica_set *s, const char *db, const bson_t *body,
                              int64_t timeout_ms, bool idempotent, const bson_t **reply, struct error *err);

#endif
