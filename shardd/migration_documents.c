// Writing and reading the documents of migration_documents.h.
#include "shardd/migration_documents.h"

#include <string.h>

#include "common/bson/doc.h"

bson_value_t uuid_value(const uint8_t uuid[16]) {
  bson_value_t v = {.value_type = BSON_TYPE_BINARY};
  v.value.v_binary.subtype = BSON_SUBTYPE_UUID;
  v.value.v_binary.data_len = 16;
  v.value.v_binary.data = (uint8_t *)uuid;
  return v;
}

static void append_range(bson_t *doc, const bson_t *min, const bson_t *max) {
  bson_t range;
  BSON_APPEND_DOCUMENT_BEGIN(doc, "range", &range);
  BSON_APPEND_DOCUMENT(&range, "min", min);
  BSON_APPEND_DOCUMENT(&range, "max", max);
  bson_append_document_end(doc, &range);
}

static void append_lsid(bson_t *doc, const uint8_t lsid[16]) {
  bson_t child;
  BSON_APPEND_DOCUMENT_BEGIN(doc, "lsid", &child);
  doc_append_uuid(&child, "id", lsid);
  bson_append_document_end(doc, &child);
}

// A reader that remembers the first field that was missing or of another type.
struct reader {
  struct arena *a;
  const bson_t *doc;
  const char *missing;
};

static void read_str(struct reader *r, const char *name, const char **out) {
  const char *s = doc_str(r->doc, name, NULL);
  if (s)
    *out = arena_strdup(r->a, s);
  else if (!r->missing)
    r->missing = name;
}

static void read_uuid(struct reader *r, const char *name, uint8_t out[16]) {
  if (!doc_uuid(r->doc, name, out) && !r->missing) r->missing = name;
}

static const bson_t *copy_child(struct arena *a, const bson_t *doc, const char *name) {
  bson_t view;
  if (!doc_doc(doc, name, &view)) return NULL;
  return doc_copy(a, &view);
}

static void read_range(struct reader *r, const bson_t **min, const bson_t **max) {
  bson_t range;
  if (doc_doc(r->doc, "range", &range)) {
    *min = copy_child(r->a, &range, "min");
    *max = copy_child(r->a, &range, "max");
    if (*min && *max) return;
  }
  if (!r->missing) r->missing = "range";
}

static void read_lsid(struct reader *r, uint8_t out[16]) {
  bson_t view;
  if (!(doc_doc(r->doc, "lsid", &view) && doc_uuid(&view, "id", out)) && !r->missing) r->missing = "lsid";
}

static bool reader_end(const struct reader *r, const char *what, struct error *err) {
  if (!r->missing) return true;
  return error_set(err, ERR_NoSuchKey, "Missing or invalid field '%s' in %s %s", r->missing, what,
                   doc_text(r->a, r->doc));
}

// --- coordinator ---

static const char *const decision_names[] = {[DECISION_COMMITTED] = "committed", [DECISION_ABORTED] = "aborted"};

const bson_t *coordinator_doc_make(struct arena *a, const struct coordinator_doc *d) {
  bson_t *doc = arena_bson(a);
  doc_append_uuid(doc, "_id", d->id);
  BSON_APPEND_UTF8(doc, "migrationSessionId", d->session_id);
  append_lsid(doc, d->lsid);
  BSON_APPEND_INT64(doc, "txnNumber", d->txn_number);
  BSON_APPEND_UTF8(doc, "nss", d->ns);
  doc_append_uuid(doc, "collectionUuid", d->collection);
  BSON_APPEND_UTF8(doc, "donorShardId", d->donor);
  BSON_APPEND_UTF8(doc, "recipientShardId", d->recipient);
  append_range(doc, d->min, d->max);
  chunk_version_append(doc, "preMigrationChunkVersion", &d->before);
  if (d->decision != DECISION_NONE) BSON_APPEND_UTF8(doc, "decision", decision_names[d->decision]);
  return doc;
}

bool coordinator_doc_parse(struct arena *a, const bson_t *doc, struct coordinator_doc *out, struct error *err) {
  *out = (struct coordinator_doc){0};
  struct reader r = {.a = a, .doc = doc};
  read_uuid(&r, "_id", out->id);
  read_str(&r, "migrationSessionId", &out->session_id);
  read_lsid(&r, out->lsid);
  out->txn_number = doc_i64(doc, "txnNumber", 0);
  read_str(&r, "nss", &out->ns);
  read_uuid(&r, "collectionUuid", out->collection);
  read_str(&r, "donorShardId", &out->donor);
  read_str(&r, "recipientShardId", &out->recipient);
  read_range(&r, &out->min, &out->max);
  bson_t before;
  if (!doc_doc(doc, "preMigrationChunkVersion", &before))
    r.missing = r.missing ? r.missing : "preMigrationChunkVersion";
  else if (!chunk_version_parse(&before, &out->before, err))
    return false;
  const char *decision = doc_str(doc, "decision", "");
  if (!strcmp(decision, "committed")) out->decision = DECISION_COMMITTED;
  if (!strcmp(decision, "aborted")) out->decision = DECISION_ABORTED;
  return reader_end(&r, "a migration coordinator", err);
}

// --- recipient ---

const bson_t *recipient_doc_make(struct arena *a, const struct recipient_doc *d) {
  bson_t *doc = arena_bson(a);
  doc_append_uuid(doc, "_id", d->id);
  BSON_APPEND_UTF8(doc, "nss", d->ns);
  BSON_APPEND_UTF8(doc, "migrationSessionId", d->session_id);
  append_range(doc, d->min, d->max);
  BSON_APPEND_UTF8(doc, "donorShardIdForLoggingPurposesOnly", d->donor);
  append_lsid(doc, d->lsid);
  BSON_APPEND_INT64(doc, "txnNumber", d->txn_number);
  return doc;
}

bool recipient_doc_parse(struct arena *a, const bson_t *doc, struct recipient_doc *out, struct error *err) {
  *out = (struct recipient_doc){0};
  struct reader r = {.a = a, .doc = doc};
  read_uuid(&r, "_id", out->id);
  read_str(&r, "nss", &out->ns);
  read_str(&r, "migrationSessionId", &out->session_id);
  read_range(&r, &out->min, &out->max);
  read_str(&r, "donorShardIdForLoggingPurposesOnly", &out->donor);
  read_lsid(&r, out->lsid);
  out->txn_number = doc_i64(doc, "txnNumber", 0);
  return reader_end(&r, "a migration recipient", err);
}

// --- range deletion ---

const bson_t *range_deletion_doc_make(struct arena *a, const struct range_deletion_doc *d) {
  bson_t *doc = arena_bson(a);
  doc_append_uuid(doc, "_id", d->id);
  BSON_APPEND_UTF8(doc, "nss", d->ns);
  doc_append_uuid(doc, "collectionUuid", d->collection);
  BSON_APPEND_UTF8(doc, "donorShardId", d->donor);
  append_range(doc, d->min, d->max);
  if (d->pending) BSON_APPEND_BOOL(doc, "pending", true);
  if (d->processing) BSON_APPEND_BOOL(doc, "processing", true);
  BSON_APPEND_UTF8(doc, "whenToClean", d->now ? "now" : "delayed");
  if (d->timestamp) doc_append_ts(doc, "timestamp", d->timestamp);
  BSON_APPEND_INT64(doc, "numOrphanDocs", d->orphans);
  if (d->key) BSON_APPEND_DOCUMENT(doc, "keyPattern", d->key);
  return doc;
}

bool range_deletion_doc_parse(struct arena *a, const bson_t *doc, struct range_deletion_doc *out, struct error *err) {
  *out = (struct range_deletion_doc){0};
  struct reader r = {.a = a, .doc = doc};
  read_uuid(&r, "_id", out->id);
  read_str(&r, "nss", &out->ns);
  read_uuid(&r, "collectionUuid", out->collection);
  read_str(&r, "donorShardId", &out->donor);
  read_range(&r, &out->min, &out->max);
  out->pending = doc_bool(doc, "pending", false);
  out->processing = doc_bool(doc, "processing", false);
  out->now = !strcmp(doc_str(doc, "whenToClean", "delayed"), "now");
  doc_timestamp(doc, "timestamp", &out->timestamp);
  out->orphans = doc_i64(doc, "numOrphanDocs", 0);
  out->key = copy_child(a, doc, "keyPattern");
  return reader_end(&r, "a range deletion", err);
}
