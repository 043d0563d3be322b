// Calls to shards and to the config servers, one or many at once, and what their failures mean to a client.
#ifndef SHARDLET_MONGOS_SHARD_CALL_H
#define SHARDLET_MONGOS_SHARD_CALL_H

#include "mongos/placement.h"

enum call_kind {
  CALL_READ,         // on the member that the request's read preference picks; repeated on network errors
  CALL_PARTIAL_READ, // the same for a client that takes what other shards have: a shard of which nobody answers fails
                     // soon
  CALL_WRITE, // on the primary; repeated only when the request has a txnNumber, under which a shard executes once
  CALL_DDL,   // on the primary; repeated, for the command says itself what it expects
};

struct shard_call {
  // in
  struct target target;
  bson_t *body; // without versions; they are added to it. One body for several calls must be copied for each.
  const struct sequence *sequences;
  size_t n_sequences;
  const char *db; // NULL = the request's
  // out, in the memory of the request's operation
  bool ok;
  const bson_t *reply; // whole, also of a reply with ok: 0; NULL when there was none
  const char *host;    // that answered
  struct error err;
};

// One call in this fiber; as many in parallel. Each call's outcome stands in it.
void shard_call_run(struct request *r, struct operation *op, struct shard_call *call, enum call_kind kind);
void shard_calls_run(struct request *r, struct operation *op, struct shard_call *calls, size_t n, enum call_kind kind);

// Calls with the same body, one for each target: copies the body for each.
struct shard_call *shard_calls_new(struct arena *a, const struct target *targets, size_t n, const bson_t *body);

// true when all succeeded. Else *err is the failure to report: a stale one when there is any (the cache is told of all
// of them but that one, which the retry loop learns from), else the first.
bool shard_calls_ok(struct router *rt, const struct placement *p, const struct shard_call *calls, size_t n,
                    struct error *err);

// A command for the config servers' primary. idempotent: repeated when the outcome is not known.
bool config_call(struct operation *op, struct router *rt, const char *db, const bson_t *body, bool idempotent,
                 const bson_t **reply, struct error *err);
// The same, forwarding the outcome to a client: the reply's fields are appended to *out.
bool config_forward(struct request *r, const char *db, const bson_t *body, bson_t *out, struct error *err);

// An error as a client may see it: a shard without a primary, a lost connection or a member that is going away is code
// 6 HostUnreachable, for a router itself is never "not primary" (reference/clients.md section 9).
void call_error_for_client(struct error *err, const char *shard);
// Whether a shard failed by not being there: what allowPartialResults passes over.
bool call_error_is_absence(const struct error *err);
// WouldChangeOwningShard, which a shard answers to an update that would move a document: refused by name. true: it was
// that.
bool refuse_move(struct error *err);

#endif
