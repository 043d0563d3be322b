// Entering, holding and leaving critical sections, and waiting for their end.
#include "shardd/critical_section.h"

#include <stdlib.h>
#include <string.h>

#include "common/bson/doc.h"

enum {
  WAIT_UNKNOWN_MS = 5000, // for a migration whose commit's outcome is unknown (DESIGN section 6, line 5)
  WAIT_MS = 30000,        // for any section: the router asks again, which a client does not notice
};

static bool owned_by(const struct critical_section *s, const char *owner) {
  return s->owner && !strcmp(s->owner, owner);
}

static void raise_section(struct critical_section *s, const char *owner, const char *reason, bool reads) {
  s->owner = strdup(owner);
  s->reason = strdup(reason);
  s->reads = reads;
  s->unknown_since_ms = 0;
}

void section_end(struct critical_section *s) {
  free(s->owner);
  free(s->reason);
  s->owner = s->reason = NULL;
  s->reads = false;
  s->unknown_since_ms = 0;
  event_signal(&s->changed);
}

// Everything evaluated under the namespace's lock before this call is applied when it returns.
static bool drain(struct operation *op, struct shard *sh, const char *ns, struct error *err) {
  struct write *w = write_begin(op, sh->node.repl);
  while (!write_lock_namespace(w, ns, true))
    if (!write_wait(op, w, err)) return false;
  write_abandon(w);
  return true;
}

bool section_enter(struct operation *op, struct shard *sh, const char *ns, const char *owner, const char *reason,
                   bool reads, struct error *err) {
  struct ns_metadata *n = metadata_ns(sh->metadata, ns);
  metadata_pin(n);
  bool ok = true;
  while (ok && n->section.owner && !owned_by(&n->section, owner)) ok = event_wait(op, &n->section.changed, err);
  if (ok) {
    bool held = n->section.owner; // by an earlier call, which still counts when this one is interrupted
    if (held)
      n->section.reads |= reads;
    else
      raise_section(&n->section, owner, reason, reads); // invariant: the flag before the drain
    ok = drain(op, sh, ns, err);
    if (!ok && !held) section_leave(sh, ns, owner);
  }
  metadata_unpin(n);
  return ok;
}

void section_block_reads(struct shard *sh, const char *ns, const char *owner) {
  struct ns_metadata *n = metadata_find_ns(sh->metadata, ns);
  if (n && owned_by(&n->section, owner)) n->section.reads = true;
}

void section_restore(struct shard *sh, const char *ns, const char *owner, const char *reason, bool reads) {
  struct ns_metadata *n = metadata_ns(sh->metadata, ns);
  if (!n->section.owner) raise_section(&n->section, owner, reason, reads);
}

void section_leave(struct shard *sh, const char *ns, const char *owner) {
  struct ns_metadata *n = metadata_find_ns(sh->metadata, ns);
  if (n && owned_by(&n->section, owner)) section_end(&n->section);
}

void section_outcome_unknown(struct shard *sh, const char *ns, const char *owner, bool unknown) {
  struct ns_metadata *n = metadata_find_ns(sh->metadata, ns);
  if (!n || !owned_by(&n->section, owner)) return;
  n->section.unknown_since_ms = unknown ? loop_now_ms(sh->loop) : 0;
  event_signal(&n->section.changed);
}

bool section_blocks(const struct ns_metadata *n, bool write) {
  return n->section.owner && (write || n->section.reads);
}

// How much longer a wait that began at `since` may take.
static int64_t remaining(const struct critical_section *s, int64_t since, int64_t now) {
  int64_t end = since + WAIT_MS;
  if (s->unknown_since_ms) {
    int64_t from = s->unknown_since_ms > since ? s->unknown_since_ms : since;
    if (from + WAIT_UNKNOWN_MS < end) end = from + WAIT_UNKNOWN_MS;
  }
  return end - now;
}

static bool wait_for_end(struct operation *op, struct ns_metadata *n, bool write, struct error *err) {
  int64_t since = loop_now_ms(op->loop);
  while (section_blocks(n, write)) {
    int64_t ms = remaining(&n->section, since, loop_now_ms(op->loop));
    if (ms <= 0)
      return error_set(err, ERR_ExceededTimeLimit, "The critical section for %s is acquired with reason: %s, and %s",
                       n->ns, n->section.reason,
                       n->section.unknown_since_ms ? "the outcome of its commit is not known yet" : "it takes long");
    bool timed_out = false;
    if (!event_wait_for(op, &n->section.changed, ms, &timed_out, err) && !timed_out) return false;
  }
  return true;
}

bool section_wait(struct operation *op, struct ns_metadata *n, bool write, struct error *err) {
  metadata_pin(n);
  bool ok = wait_for_end(op, n, write, err);
  metadata_unpin(n);
  return ok;
}

const bson_t *section_document(struct arena *a, const char *ns, const char *owner, const char *reason, bool reads) {
  bson_t *doc = arena_bson(a);
  bson_t child;
  BSON_APPEND_UTF8(doc, "_id", ns);
  BSON_APPEND_DOCUMENT_BEGIN(doc, "reason", &child);
  BSON_APPEND_UTF8(&child, "owner", owner);
  BSON_APPEND_UTF8(&child, "text", reason);
  bson_append_document_end(doc, &child);
  BSON_APPEND_BOOL(doc, "blockReads", reads);
  return doc;
}
