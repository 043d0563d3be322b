// Log entries as MongoDB's oplog documents. See oplog.h.
#include "common/node/oplog.h"

#include <string.h>

#include "common/bson/doc.h"
#include "common/store/change.h"

enum { VERSION = 2 };

struct operation_doc {
  bson_t *doc; // {op, ns, ui, o, o2}
  int32_t stmt_id;
  bool retryable;
  struct operation_doc *next;
};

struct conversion {
  struct arena *arena;
  struct store *store;
  struct operation_doc *first, **end, *last;
  size_t n;
  const char *other; // kind of the last change that is not shown as an operation; NULL = none
  bool has_session;
  uint8_t lsid[16];
  int64_t txn_number;
};

// Begins {op, ns, ui}. ns: the collection's, or its database's "$cmd".
static bson_t *begin(struct conversion *x, const char *op, const char *ns, const uint8_t uuid[16]) {
  struct operation_doc *o = arena_zalloc(x->arena, sizeof *o);
  o->doc = arena_bson(x->arena);
  BSON_APPEND_UTF8(o->doc, "op", op);
  BSON_APPEND_UTF8(o->doc, "ns", ns);
  doc_append_uuid(o->doc, "ui", uuid);
  *x->end = o;
  x->end = &o->next;
  x->last = o;
  x->n++;
  return o->doc;
}

static void append_id(bson_t *to, const char *name, const bson_value_t *id) {
  bson_t doc;
  BSON_APPEND_DOCUMENT_BEGIN(to, name, &doc);
  doc_append_value(&doc, "_id", id);
  bson_append_document_end(to, &doc);
}

static void add_put(struct conversion *x, const struct collection *c, const struct change *change) {
  bool replaces = doc_bool(&change->raw, "o", false);
  bson_t *doc = begin(x, replaces ? "u" : "i", c->ns, change->uuid);
  BSON_APPEND_DOCUMENT(doc, "o", &change->doc);
  append_id(doc, "o2", &change->id);
}

static void add_delete(struct conversion *x, const struct collection *c, const struct change *change) {
  bson_t *doc = begin(x, "d", c->ns, change->uuid);
  append_id(doc, "o", &change->id);
}

static const char *command_ns(struct arena *a, const char *db) {
  return arena_printf(a, "%s.$cmd", db);
}

static void add_create(struct conversion *x, const struct change *change) {
  const char *ns = doc_str(&change->raw, "ns", ""), *dot = strchr(ns, '.');
  if (!dot) return;
  bson_t *doc = begin(x, "c", command_ns(x->arena, arena_strndup(x->arena, ns, (size_t)(dot - ns))), change->uuid);
  bson_t o, options, index, key;
  BSON_APPEND_DOCUMENT_BEGIN(doc, "o", &o);
  BSON_APPEND_UTF8(&o, "create", dot + 1);
  if (doc_doc(&change->raw, "o", &options)) bson_concat(&o, &options);
  BSON_APPEND_DOCUMENT_BEGIN(&o, "idIndex", &index);
  BSON_APPEND_INT32(&index, "v", 2);
  BSON_APPEND_DOCUMENT_BEGIN(&index, "key", &key);
  BSON_APPEND_INT32(&key, "_id", 1);
  bson_append_document_end(&index, &key);
  BSON_APPEND_UTF8(&index, "name", "_id_");
  bson_append_document_end(&o, &index);
  bson_append_document_end(doc, &o);
}

static void add_index(struct conversion *x, const struct collection *c, const struct change *change) {
  bson_t *doc = begin(x, "c", command_ns(x->arena, c->db), change->uuid), o, spec;
  BSON_APPEND_DOCUMENT_BEGIN(doc, "o", &o);
  BSON_APPEND_UTF8(&o, "createIndexes", c->name);
  if (doc_doc(&change->raw, "x", &spec)) bson_concat(&o, &spec);
  bson_append_document_end(doc, &o);
}

// The record of a retryable write stands behind the change that it is of.
static void add_session(struct conversion *x, const struct change *change) {
  x->has_session = doc_uuid(&change->raw, "l", x->lsid);
  x->txn_number = doc_i64(&change->raw, "t", 0);
  if (!x->last) return;
  x->last->retryable = true;
  x->last->stmt_id = (int32_t)doc_i64(&change->raw, "s", 0);
}

static bool add_change(void *ctx, const struct change *change) {
  struct conversion *x = ctx;
  const struct collection *c = store_collection_by_uuid(x->store, change->uuid);
  if (!strcmp(change->kind, "session"))
    add_session(x, change);
  else if (!strcmp(change->kind, "create"))
    add_create(x, change);
  else if (c && !strcmp(change->kind, "p"))
    add_put(x, c, change);
  else if (c && !strcmp(change->kind, "d"))
    add_delete(x, c, change);
  else if (c && !strcmp(change->kind, "index"))
    add_index(x, c, change);
  else
    x->other = arena_strdup(x->arena, change->kind);
  return true;
}

static const char *message_of(const char *kind) {
  static const struct {
    const char *kind, *message;
  } messages[] = {{"p", "a document of a collection that was dropped since"},
                  {"d", "a deletion in a collection that was dropped since"},
                  {"drop", "a collection was dropped"},
                  {"rename", "a collection was renamed"},
                  {"options", "options of a collection changed"},
                  {"shardkey", "a collection got a shard key"},
                  {"index", "an index of a collection that was dropped since"},
                  {"build", "a part of an index was built"},
                  {"ready", "an index is ready"},
                  {"unindex", "an index was dropped"},
                  {"file", "a range is being received"},
                  {"adopt", "a range was received"},
                  {"copy", "documents were copied to a file that takes the place of several"},
                  {"uncopy", "documents were taken out of a file that takes the place of several"},
                  {"merge", "files of neighbouring ranges became one"},
                  {"unfile", "a range's file was given up"},
                  {"range", "documents of a range that moved away were deleted"},
                  {"noop", "nothing: a time is reached"}};
  for (size_t i = 0; kind && i < sizeof messages / sizeof *messages; i++)
    if (!strcmp(messages[i].kind, kind)) return messages[i].message;
  return "the record of a write that changed nothing";
}

static void append_apply_ops(const struct conversion *x, bson_t *out) {
  bson_t o, list, one;
  uint32_t i = 0;
  BSON_APPEND_UTF8(out, "op", "c");
  BSON_APPEND_UTF8(out, "ns", "admin.$cmd");
  BSON_APPEND_DOCUMENT_BEGIN(out, "o", &o);
  BSON_APPEND_ARRAY_BEGIN(&o, "applyOps", &list);
  for (const struct operation_doc *d = x->first; d; d = d->next) {
    char text[16];
    const char *key;
    bson_uint32_to_string(i++, &key, text, sizeof text);
    BSON_APPEND_DOCUMENT_BEGIN(&list, key, &one);
    bson_concat(&one, d->doc);
    if (d->retryable) BSON_APPEND_INT32(&one, "stmtId", d->stmt_id);
    bson_append_document_end(&list, &one);
  }
  bson_append_array_end(&o, &list);
  bson_append_document_end(out, &o);
}

static void append_nothing(const struct conversion *x, bson_t *out) {
  bson_t o;
  BSON_APPEND_UTF8(out, "op", "n");
  BSON_APPEND_UTF8(out, "ns", "");
  BSON_APPEND_DOCUMENT_BEGIN(out, "o", &o);
  BSON_APPEND_UTF8(&o, "msg", message_of(x->other));
  bson_append_document_end(out, &o);
}

static void append_session(const struct conversion *x, bson_t *out) {
  bson_t lsid;
  BSON_APPEND_DOCUMENT_BEGIN(out, "lsid", &lsid);
  doc_append_uuid(&lsid, "id", x->lsid);
  bson_append_document_end(out, &lsid);
  BSON_APPEND_INT64(out, "txnNumber", x->txn_number);
  if (x->n == 1 && x->last->retryable) BSON_APPEND_INT32(out, "stmtId", x->last->stmt_id);
}

const bson_t *oplog_document(struct arena *a, struct store *s, int64_t term, const bson_t *entry) {
  struct conversion x = {.arena = a, .store = s};
  x.end = &x.first;
  changes_each(entry, add_change, &x);
  bson_t *out = arena_bson(a);
  if (x.has_session) append_session(&x, out);
  if (x.n == 1)
    bson_concat(out, x.first->doc);
  else if (x.n)
    append_apply_ops(&x, out);
  else
    append_nothing(&x, out);
  doc_append_ts(out, "ts", entry_ts(entry));
  BSON_APPEND_INT64(out, "t", term);
  BSON_APPEND_INT64(out, "v", VERSION);
  bson_iter_t wall;
  if (doc_get(entry, "wall", &wall) && BSON_ITER_HOLDS_DATE_TIME(&wall))
    BSON_APPEND_DATE_TIME(out, "wall", bson_iter_date_time(&wall));
  return out;
}
