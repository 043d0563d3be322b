// The end of a reception: adopting the staged file, and what follows from the donor's word.
//
// Invariants
// - The adoption is one entry: session records, the file becomes active and takes the interval, the documents by which
//   a later primary knows of it. Its apply answers the donor's commit request.
// - No `_id` of the file is one of another range of this shard; nothing is in flight when that is checked.
// - Until the donor's word the adopted documents are orphans here: this shard's metadata does not own the range, and
//   its range deletion task counts them. The section keeps writes away from the collection until then.
#include "shardd/migration_destination.h"

#include <string.h>

#include "common/base/log.h"
#include "common/bson/doc.h"
#include "shardd/critical_section.h"
#include "shardd/peer.h"
#include "shardd/range_deleter.h"
#include "shardd/session_records.h"

enum { SESSIONS_IN_ENTRY_BYTES = 4 * 1024 * 1024 }; // of records that go with the adoption in one entry

// --- records of retryable writes ---

struct records {
  const bson_t **docs;
  size_t n, cap, bytes;
};

static void records_cleanup(struct records *l) {
  free(l->docs);
}

static void add_records(struct write *w, const struct collection *c, const struct records *l) {
  for (size_t i = 0; i < l->n; i++) session_record_add(w, c, l->docs[i]);
}

static bool fetch_records(struct operation *op, struct reception *r, bson_t *records, bool *more, struct error *err) {
  bson_t *cmd = arena_bson(op->arena);
  BSON_APPEND_UTF8(cmd, "_getNextSessionMods", r->ns);
  BSON_APPEND_UTF8(cmd, "sessionId", r->session_id);
  const bson_t *reply;
  if (!peer_call(op, r->sh, r->from_shard, "admin", cmd, PEER_TIMEOUT_MS, false, &reply, err)) return false;
  if (!doc_doc(reply, "oplog", records)) return error_set(err, ERR_NoSuchKey, "_getNextSessionMods answered no oplog");
  *more = doc_bool(reply, "more", false);
  return true;
}

static void keep_records(struct arena *a, const bson_t *records, struct records *l) {
  bson_iter_t it;
  bson_iter_init(&it, records);
  while (bson_iter_next(&it)) {
    bson_t record;
    iter_doc(&record, &it);
    if (l->n == l->cap) l->docs = array_grow(l->docs, &l->cap, l->n + 1, sizeof *l->docs);
    l->docs[l->n++] = doc_copy(a, &record);
    l->bytes += record.len;
  }
}

// All of the donor's records. What would make the adoption's entry too large goes ahead of it; should the move fail
// then, records stay here without their range, which only matters to a retry that is sent to every shard.
static bool collect_records(struct operation *op, struct reception *r, struct records *l, struct error *err) {
  if (r->records) keep_records(op->arena, r->records, l);
  for (bool more = r->more_records; more;) {
    bson_t records;
    if (!fetch_records(op, r, &records, &more, err)) return false;
    keep_records(op->arena, &records, l);
    if (l->bytes < SESSIONS_IN_ENTRY_BYTES) continue;
    struct write *w = write_begin(op, r->sh->node.repl);
    const struct collection *c = reception_collection(r, err);
    if (!c) return false;
    add_records(w, c, l);
    if (!write_commit(op, w, err)) return false;
    l->n = l->bytes = 0;
  }
  return true;
}

// --- the adoption ---

static const char *section_reason(struct arena *a, const struct reception *r) {
  return arena_printf(a, "{ recvChunk: \"%s\", fromShard: \"%s\" }", r->ns, r->from_shard);
}

static bool put_documents(struct operation *op, struct reception *r, struct write *w, struct error *err) {
  struct node *n = &r->sh->node;
  struct arena *a = op->arena;
  struct recipient_doc doc = {.ns = r->ns,
                              .session_id = r->session_id,
                              .min = r->min,
                              .max = r->max,
                              .donor = r->from_shard,
                              .txn_number = r->txn_number};
  memcpy(doc.id, r->id, 16);
  memcpy(doc.lsid, r->lsid, 16);
  struct range_deletion_doc task;
  if (!range_deleter_task(r->sh->deleter, a, r->id, &task))
    return error_set(err, ERR_InternalError, "The range deletion task of the range being received is gone");
  task.orphans = r->documents;
  return local_put(n, w, RECIPIENTS_NS, recipient_doc_make(a, &doc), err) &&
         local_put(n, w, SECTIONS_NS, section_document(a, r->ns, r->session_id, section_reason(a, r), false), err) &&
         local_put(n, w, RANGE_DELETIONS_NS, range_deletion_doc_make(a, &task), err);
}

static bool write_adoption(struct operation *op, struct reception *r, const struct records *l, struct error *err) {
  struct write *w = write_begin(op, r->sh->node.repl);
  while (!write_lock_namespace(w, r->ns, true))
    if (!write_wait(op, w, err)) return false;
  struct collection *c = reception_collection(r, err);
  const struct range_file *f = c ? collection_file(c, r->file) : NULL;
  if (!f || f->state != FILE_STAGED)
    return error_set(err, ERR_NamespaceNotFound, "The staged documents of a range of %s are gone", r->ns);
  if (!reception_ids_unique(op, r, c, err)) return false;
  r->documents = f->count;
  write_atomic(w);
  add_records(w, c, l);
  change_adopt(write_changes(w), r->collection, r->file, bound_key(op->arena, r->min), bound_key(op->arena, r->max));
  return put_documents(op, r, w, err) && write_commit(op, w, err);
}

bool reception_adopt(struct operation *op, struct reception *r, struct error *err) {
  if (!section_enter(op, r->sh, r->ns, r->session_id, section_reason(op->arena, r), false, err)) return false;
  r->section_began_ms = loop_now_ms(op->loop);
  int64_t fetched = 0;
  struct records records __attribute__((cleanup(records_cleanup))) = {0};
  bool ok = (!r->more_changes || reception_mods(op, r, &fetched, err)) && collect_records(op, r, &records, err) &&
            write_adoption(op, r, &records, err);
  r->steady += fetched;
  if (!ok) section_leave(r->sh, r->ns, r->session_id);
  return ok;
}

// --- the donor's word ---

static bool settle_task(struct operation *op, struct shard *sh, struct write *w, const uint8_t id[16],
                        enum decision decision, struct error *err) {
  struct range_deletion_doc task;
  bson_value_t key = uuid_value(id);
  if (decision == DECISION_COMMITTED) return local_delete(&sh->node, w, RANGE_DELETIONS_NS, &key, err);
  if (!range_deleter_task(sh->deleter, op->arena, id, &task)) return true;
  task.pending = false;
  task.now = true;
  return local_put(&sh->node, w, RANGE_DELETIONS_NS, range_deletion_doc_make(op->arena, &task), err);
}

bool reception_settle(struct operation *op, struct shard *sh, const char *ns, const uint8_t id[16],
                      enum decision decision, struct error *err) {
  struct write *w = write_begin(op, sh->node.repl);
  bson_value_t key = uuid_value(id), section = value_str(ns);
  write_atomic(w);
  return local_delete(&sh->node, w, RECIPIENTS_NS, &key, err) &&
         local_delete(&sh->node, w, SECTIONS_NS, &section, err) && settle_task(op, sh, w, id, decision, err) &&
         write_commit(op, w, err);
}

bool reception_unstage(struct operation *op, struct shard *sh, const char *ns, const uint8_t id[16],
                       const uint8_t collection[16], uint32_t file, struct error *err) {
  struct write *w = write_begin(op, sh->node.repl);
  while (!write_lock_namespace(w, ns, true))
    if (!write_wait(op, w, err)) return false;
  const struct collection *c = store_collection_by_uuid(sh->node.store, collection);
  const struct range_file *f = c ? collection_file(c, file) : NULL;
  write_atomic(w);
  if (f && f->state == FILE_STAGED) change_unfile(write_changes(w), collection, file);
  bson_value_t key = uuid_value(id);
  return local_delete(&sh->node, w, RANGE_DELETIONS_NS, &key, err) && write_commit(op, w, err);
}
