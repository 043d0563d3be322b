// What a new primary does about migrations that an earlier one left behind.
//
// - Donor: a coordinator document without a decision. Its config commit may have happened, or may still be on its way.
//   So first the chunk's version is raised on the config server, after which no such commit can succeed; then the owner
//   is read; then the decision is written. Until that is done the namespace's metadata does not become known here.
// - Donor: a coordinator document with a decision. It is delivered to the recipient until that has answered.
// - Recipient: staged files are dropped. A range that was adopted keeps its critical section until the donor releases
//   it.
#ifndef SHARDLET_SHARDD_MIGRATION_RECOVERY_H
#define SHARDLET_SHARDD_MIGRATION_RECOVERY_H

#include "shardd/shard.h"

// Decides every undecided migration of `ns` that no running donation is about. Called by the namespace's refresh, so
// one at a time. err: the config server could not be asked.
bool migration_decide_all_of(struct operation *op, struct shard *sh, const char *ns, struct error *err);

// In the step-up, before the member says that it is primary: critical sections are restored from their documents.
void migration_restore_sections(struct shard *sh);

// After the step-up: drops staged files, and waits again for the donor's word where a range was adopted.
bool migration_recover_received(struct operation *op, struct shard *sh, struct error *err);

// Whether a range that this migration brought waits here for its donor's word.
bool migration_is_adopted(struct operation *op, struct shard *sh, const uint8_t id[16]);

// Decides and delivers all that is left, in a fiber of its own which ends when that is done or the term is over.
void migration_recover_soon(struct shard *sh);

// Completes what earlier migrations of `ns` left to be done, before a new one begins. err: it is not possible now.
bool migration_finish_earlier(struct operation *op, struct shard *sh, const char *ns, struct error *err);

#endif
