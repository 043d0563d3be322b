// The donor's side of moving a range to another shard.
#ifndef SHARDLET_SHARDD_MIGRATION_SOURCE_H
#define SHARDLET_SHARDD_MIGRATION_SOURCE_H

#include "shardd/migration_cloner.h"
#include "shardd/migration_documents.h"
#include "shardd/migrations.h"

enum { MOVE_STEPS = 6 };

// _shardsvrMoveRange as it came; documents live in the donation's arena.
struct move_request {
  const char *ns, *to;
  const bson_t *min, *max;         // at least one is given
  struct chunk_version generation; // the collection's epoch and timestamp as the sender knew them
  int64_t max_chunk_bytes;
  int force_jumbo; // 0 no, 1 by a user, 2 by the balancer
  bool wait_for_delete;
  bool secondary_throttle;
};

struct donation { // counted references: the running operation's, and one of each command that waits for the result
  struct shard *sh;
  struct arena *arena;
  size_t refs;
  struct move_request request;

  struct coordinator_doc doc; // what the log has of it, from step 3 on
  struct chunk_version collection_version;
  struct shard_key key;
  struct cloner *cloner;         // during steps 3 to 5
  struct operation *op;          // the one that does it
  bool documents_written;        // coordinator and range deletion are in the log
  bool in_section, commit_begun; // writes wait; the config server may have been told
  bool delivered, forgotten;     // the recipient knows the decision; the coordinator document is removed
  int64_t orphans;               // documents of the range, as the recipient has them
  int64_t began_ms, step_began_ms, clone_began_ms, clone_ms, section_began_ms;
  int32_t step_ms[MOVE_STEPS];
  int steps;                                     // over
  int64_t cloned, cloned_bytes, catchup, steady; // the recipient's counts

  bool done;
  struct error result; // code 0: committed
  struct event ended;
};

// The six steps, in the calling fiber; then, in another operation, what has to follow. The donation is registered
// before, and unregistered when it is done; one reference is taken over.
void migration_source_run(struct operation *op, void *donation);

void donation_unref(struct donation *d);

// --- the steps' parts ---

// migration_bounds.c: completes the range and checks it against this shard's chunks; fills doc.min, doc.max,
// doc.before.
bool migration_bounds(struct operation *op, struct donation *d, struct collection *c, const struct routing *r,
                      struct error *err);

// migration_rows.c: queues rows of config.changelog.
void donation_log(struct operation *op, struct donation *d, const char *what); // moveChunk.start, moveChunk.error
void donation_log_commit(struct operation *op, struct donation *d);
void donation_log_steps(struct operation *op, struct donation *d, const struct error *err);

// migration_commit.c: step 6 and the config server.
bool commit_tell(struct operation *op, struct donation *d, const bson_t **reply, struct error *err);
// After an error of it. true: it was committed all the same. Ends without knowing only with this member's role.
bool commit_find_outcome(struct operation *op, struct donation *d, struct error *err);
// Metadata of after the move, before anyone is let in again: else this shard would go on serving a range that it gave
// away. reply: the commit's, NULL when it never came.
void commit_learn(struct operation *op, struct donation *d, const bson_t *reply);

// migration_decision.c: the donor's lines of the log (DESIGN section 6), each one entry.
bool decision_begin(struct operation *op, struct shard *sh, const struct coordinator_doc *d, bool now,
                    const bson_t *key, struct error *err);
bool decision_write(struct operation *op, struct shard *sh, struct coordinator_doc *d, int64_t orphans,
                    struct error *err);
// Finds out what became of a config commit whose answer is missing: raises the chunk's version, reads the owner. err:
// it cannot be known now.
bool decision_find(struct operation *op, struct shard *sh, struct coordinator_doc *d, struct error *err);
// Tells the recipient. err: it could not be told.
bool decision_tell(struct operation *op, struct shard *sh, const struct coordinator_doc *d, struct error *err);
// Forgets the coordinator document of a decision that the recipient knows.
bool decision_forget(struct operation *op, struct shard *sh, const struct coordinator_doc *d, struct error *err);
// Both.
bool decision_deliver(struct operation *op, struct shard *sh, const struct coordinator_doc *d, struct error *err);

#endif
