// The recipient's side of moving a range: receives it into a staged file, adopts it, waits for the donor's word.
#ifndef SHARDLET_SHARDD_MIGRATION_DESTINATION_H
#define SHARDLET_SHARDD_MIGRATION_DESTINATION_H

#include "common/store/change.h"
#include "shardd/migration_documents.h"
#include "shardd/migrations.h"

enum { RECEIVE_STEPS = 8 };

enum reception_state { // in the order they are passed through; the last two end it
  RECEPTION_READY,
  RECEPTION_CLONE,
  RECEPTION_CATCHUP,
  RECEPTION_STEADY,
  RECEPTION_COMMIT_START,
  RECEPTION_IN_SECTION, // the range is adopted; writes to the collection wait here
  RECEPTION_EXIT_SECTION,
  RECEPTION_DONE,
  RECEPTION_FAIL,
  RECEPTION_ABORT,
};

struct reception { // counted references: the running operation's, and one of each command that waits for it
  struct shard *sh;
  struct arena *arena;
  size_t refs;
  const char *ns, *session_id, *from, *from_shard;
  uint8_t id[16], lsid[16]; // the migration's
  int64_t txn_number;
  const bson_t *min, *max, *key_pattern;
  struct key min_key, max_key; // max exclusive, for comparing (bound_end)

  enum reception_state state;
  struct error error;   // of RECEPTION_FAIL
  struct event changed; // the state, or what is asked of it
  struct operation *op; // the one that does it
  bool commit_asked;
  // What the donor said when it asked: changes to fetch; the first records of retryable writes, and whether it has
  // others.
  bool more_changes, more_records;
  const bson_t *records;
  enum decision decision; // the donor's word; DECISION_NONE: not yet

  uint8_t collection[16];
  uint32_t file;             // the staged file; 0 = not made yet
  struct map *met_ids;       // reception_ids.c; NULL = none
  const bson_t *first_batch; // of the clone, fetched while the file was staged; in the operation's arena
  int64_t documents;         // in it, when it was adopted
  int64_t cloned, cloned_bytes, catchup, steady;
  int64_t section_began_ms;
  int32_t step_ms[RECEIVE_STEPS];
  int steps;
  bool ended;
};

struct reception *reception_new(struct shard *sh);
void reception_unref(struct reception *r);
void reception_set_state(struct reception *r, enum reception_state s);
void reception_interrupt(struct reception *r); // ends it, unless the range is adopted

// Receives, in the calling fiber; then, in another operation, what has to follow. The reception is registered before,
// and unregistered when it is done; one reference is taken over.
void migration_destination_run(struct operation *op, void *reception);
// Goes on with a range that an earlier primary had adopted: waits for the donor's word.
void migration_destination_resume(struct operation *op, void *reception);

// The donor's word, also when nothing runs here any more: releases or gives up what is left of this migration, and
// returns when that is in the log and the metadata is fresh.
bool migration_release(struct operation *op, struct shard *sh, const char *ns, const char *session_id,
                       const uint8_t id[16], enum decision decision, struct error *err);

// --- parts ---

// reception_collection.c: creates the collection here as the donor has it, or checks that it is the same.
bool reception_prepare_collection(struct operation *op, struct reception *r, struct error *err);
// It, as it is now. NULL: it was dropped since, which err says.
struct collection *reception_collection(const struct reception *r, struct error *err);
bool reception_collection_gone(const struct reception *r, struct error *err); // says so; returns false

// reception_transfer.c
bool reception_stage(struct operation *op, struct reception *r,
                     struct error *err); // {staged file, pending range deletion}
bool reception_clone(struct operation *op, struct reception *r, struct error *err);
// Fetches and applies changes until there are none; *fetched: how many documents.
bool reception_mods(struct operation *op, struct reception *r, int64_t *fetched, struct error *err);

// reception_ids.c
bool reception_ids_matter(const struct collection *c); // whether equal `_id`s can be in different ranges
// A document of the range, about to be staged, has the `_id` of one in another range here.
void reception_ids_note(struct reception *r, const bson_value_t *id);
// For each put that is applied here while the range is received.
void reception_put_applied(struct reception *r, struct collection *c, const struct change *put);
// At the adoption, with nothing in flight. err DuplicateKey.
bool reception_ids_unique(struct operation *op, struct reception *r, struct collection *c, struct error *err);
void reception_ids_free(struct reception *r);
// One row of the staged file by a key of one of its indexes. 0 = there is none.
int64_t reception_staged_rid(const struct reception *r, struct collection *c, const struct index *i, struct arena *a,
                             struct key key);
int64_t reception_staged_rid_of_id(const struct reception *r, struct collection *c, struct arena *a,
                                   const bson_value_t *id);

// reception_adoption.c: the rest of the changes, session records, and the entry by which the range becomes this
// shard's, all while the donor's section holds. Then this shard's own section holds until the donor's word.
bool reception_adopt(struct operation *op, struct reception *r, struct error *err);
// What the donor's word means for the log: {recipient document and section removed, range deletion removed or ready}.
bool reception_settle(struct operation *op, struct shard *sh, const char *ns, const uint8_t id[16],
                      enum decision decision, struct error *err);
// Undoes what is staged and not adopted.
bool reception_unstage(struct operation *op, struct shard *sh, const char *ns, const uint8_t id[16],
                       const uint8_t collection[16], uint32_t file, struct error *err);

#endif
