// Critical sections: while a namespace's placement changes, its writes wait here, then its reads, too.
//
// Invariant: when section_enter() returns, every write to the namespace that was evaluated before is applied, and none
// is evaluated until section_leave(). The flag is raised first; then the namespace lock is taken once exclusively,
// which every write holds from its read to its apply. A write that was checked before the flag finds it in
// node_hooks.still().
//
// A section that must outlive this primary has a document in config.collection_critical_sections, which the caller
// writes in the entry where it belongs (section_document()); a step-up restores it before anything is served.
#ifndef SHARDLET_SHARDD_CRITICAL_SECTION_H
#define SHARDLET_SHARDD_CRITICAL_SECTION_H

#include "shardd/metadata.h"

#define SECTIONS_NS "config.collection_critical_sections"

// owner: unique for the holder; reason: for the error text, for example "{ moveChunk: \"a.b\" }". Waits while another
// owner has it. The same owner again: only raises `reads`.
bool section_enter(struct operation *op, struct shard *sh, const char *ns, const char *owner, const char *reason,
                   bool reads, struct error *err);
void section_block_reads(struct shard *sh, const char *ns, const char *owner);
void section_restore(struct shard *sh, const char *ns, const char *owner, const char *reason, bool reads);
// Wakes all who wait; nothing when it is not held by owner.
void section_leave(struct shard *sh, const char *ns, const char *owner);
void section_end(struct critical_section *s); // whoever owns it; wakes all who wait
void section_outcome_unknown(struct shard *sh, const char *ns, const char *owner, bool unknown);

// Whether the section holds up this kind of operation now.
bool section_blocks(const struct ns_metadata *n, bool write);
// Waits for its end. err: the operation's own deadline; ExceededTimeLimit after 5 s while a commit's outcome is
// unknown, or after 30 s in any case (a router tries again).
bool section_wait(struct operation *op, struct ns_metadata *n, bool write, struct error *err);

// {_id: ns, reason: {owner, text}, blockReads}
const bson_t *section_document(struct arena *a, const char *ns, const char *owner, const char *reason, bool reads);

#endif
