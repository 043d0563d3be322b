// bulkWrite: statements for several collections in one command. Runs of the same kind and namespace become ordinary
// batches; the answer is a cursor of one row a statement.
#include <string.h>

#include "common/bson/doc.h"
#include "mongos/forward.h"
#include "mongos/router_cursor.h"
#include "mongos/write_command.h"
#include "mongos/write_commands.h"

enum { UNKNOWN_FIELD = 40415 };

struct bulk_op {
  enum write_kind kind;
  int64_t ns;            // number in nsInfo
  const bson_t *as_sent; // the statement as insert, update and delete take it
};

struct bulk {
  struct request *r;
  bool ordered, errors_only;
  const char **ns; // by number
  size_t n_ns;
  struct bulk_op *ops;
  size_t n;
  int64_t inserted, matched, modified, upserted, deleted, errors;
  const bson_t **rows;
  size_t n_rows;
  struct write_result late; // write concern errors of all batches
};

static bool read_namespaces(struct bulk *b, struct error *err) {
  struct documents docs;
  bson_t doc;
  if (!request_documents(b->r, "nsInfo", &docs, err)) return false;
  b->ns = arena_alloc(b->r->op->arena, (docs.count + 1) * sizeof *b->ns);
  while (documents_next(&docs, &doc)) {
    const char *ns = doc_str(&doc, "ns", NULL);
    if (ns == NULL) return error_set(err, 40414, "BSON field 'bulkWrite.nsInfo.ns' is missing but a required field");
    if (!namespace_valid(ns, err)) return false;
    b->ns[b->n_ns++] = arena_strdup(b->r->op->arena, ns);
  }
  return true;
}

// Copies fields under the names that update and delete use.
static void copy_field(const bson_t *from, const char *field, bson_t *to, const char *as) {
  bson_iter_t it;
  if (doc_get(from, field, &it)) doc_append_iter(to, as, &it);
}

// A field that is not known is refused: to ignore a "sort" would change another document than the client meant.
static bool check_fields(const bson_t *doc, enum write_kind kind, struct error *err) {
  static const char *const known[][12] = {
      [WRITE_INSERT] = {"insert", "document"},
      [WRITE_UPDATE] = {"update", "filter", "sort", "multi", "updateMods", "upsert", "arrayFilters", "hint",
                        "constants", "collation"},
      [WRITE_DELETE] = {"delete", "filter", "multi", "hint", "collation"},
  };
  bson_iter_t it;
  if (!bson_iter_init(&it, doc)) return error_set(err, ERR_InvalidBSON, "bulkWrite.ops holds an invalid document");
  while (bson_iter_next(&it)) {
    const char *const *field = known[kind];
    while (*field != NULL && strcmp(*field, bson_iter_key(&it)) != 0) field++;
    if (*field == NULL) {
      return error_set(err, UNKNOWN_FIELD, "BSON field 'bulkWrite.%s.%s' is an unknown field.", known[kind][0],
                       bson_iter_key(&it));
    }
  }
  return true;
}

static bool read_op(struct bulk *b, const bson_t *doc, struct bulk_op *out, struct error *err) {
  static const char *const kinds[] = {"insert", "update", "delete"};
  static const char *const same[] = {"hint", "collation", "arrayFilters", "upsert", "sort", NULL};
  struct arena *a = b->r->op->arena;
  bson_iter_t it;
  if (!bson_iter_init(&it, doc) || !bson_iter_next(&it))
    return error_set(err, ERR_BadValue, "an empty bulkWrite operation");
  size_t kind = 0;
  while (kind < 3 && strcmp(bson_iter_key(&it), kinds[kind]) != 0) kind++;
  if (kind == 3) return error_set(err, ERR_BadValue, "Unrecognized bulkWrite op: %s", bson_iter_key(&it));
  *out = (struct bulk_op){.kind = (enum write_kind)kind, .ns = iter_i64(&it)};
  if (!check_fields(doc, out->kind, err)) return false;
  if (out->ns < 0 || (size_t)out->ns >= b->n_ns) {
    return error_set(err, ERR_BadValue, "BulkWrite ops entry has an invalid nsInfo index: %" PRId64, out->ns);
  }
  if (out->kind == WRITE_INSERT) {
    bson_t document;
    if (!doc_doc(doc, "document", &document))
      return error_set(err, ERR_BadValue, "BSON field 'insert.document' is missing");
    out->as_sent = arena_bson_view(a, bson_get_data(&document), document.len);
    return true;
  }
  bson_t *to = arena_bson(a);
  bool multi = doc_bool(doc, "multi", false);
  copy_field(doc, "filter", to, "q");
  if (out->kind == WRITE_UPDATE) {
    copy_field(doc, "updateMods", to, "u");
    copy_field(doc, "constants", to, "c");
    bson_append_bool(to, "multi", -1, multi);
  } else {
    bson_append_int32(to, "limit", -1, multi ? 0 : 1);
  }
  for (const char *const *field = same; *field != NULL; field++) copy_field(doc, *field, to, *field);
  out->as_sent = to;
  return true;
}

static bool read_ops(struct bulk *b, struct error *err) {
  struct documents docs;
  bson_t doc;
  if (!request_documents(b->r, "ops", &docs, err)) return false;
  if (docs.count == 0 || docs.count > MESSAGE_MAX_STATEMENTS) {
    return error_set(err, ERR_InvalidLength, "Write batch sizes must be between 1 and %d. Got %zu operations.",
                     MESSAGE_MAX_STATEMENTS, docs.count);
  }
  b->ops = arena_zalloc(b->r->op->arena, docs.count * sizeof *b->ops);
  while (documents_next(&docs, &doc)) {
    if (!read_op(b, &doc, &b->ops[b->n++], err)) return false;
  }
  return true;
}

static const bson_t *base_for(struct bulk *b, const struct bulk_op *op, const char *coll) {
  static const char *const own[] = {"bulkWrite", "ops", "nsInfo", "errorsOnly", "cursor", "stmtId", "stmtIds", NULL};
  static const char *const names[] = {"insert", "update", "delete"};
  bson_t *base = arena_bson(b->r->op->arena);
  bson_append_utf8(base, names[op->kind], -1, coll, -1);
  forward_fields(base, b->r->body, own);
  return base;
}

// A row of the reply's cursor.
static void add_row(struct bulk *b, size_t index, const struct error *e, int64_t n, int64_t modified, bool is_update,
                    const bson_value_t *upserted) {
  bson_t *row = arena_bson(b->r->op->arena), id;
  bson_append_double(row, "ok", -1, e != NULL ? 0 : 1);
  bson_append_int32(row, "idx", -1, (int32_t)index);
  if (e != NULL) {
    bson_append_int32(row, "code", -1, e->code);
    bson_append_utf8(row, "errmsg", -1, e->message, -1);
    if (e->extra != NULL) bson_concat(row, e->extra);
  }
  doc_append_num(row, "n", n);
  if (is_update && e == NULL) doc_append_num(row, "nModified", modified);
  if (upserted != NULL) {
    bson_append_document_begin(row, "upserted", -1, &id);
    doc_append_value(&id, "_id", upserted);
    bson_append_document_end(row, &id);
  }
  b->rows[b->n_rows++] = row;
}

// Rows in the order of the statements, as a driver reads them. What succeeded: inserts are all alike, an update or a
// delete ran alone.
static void add_rows(struct bulk *b, size_t from, size_t n, const struct write_result *x) {
  const struct error **failed = arena_zalloc(b->r->op->arena, n * sizeof *failed);
  for (size_t e = 0; e < x->n_errors; e++) failed[x->errors[e].index] = &x->errors[e].error;
  bool insert = b->ops[from].kind == WRITE_INSERT, update = b->ops[from].kind == WRITE_UPDATE;
  const bson_value_t *id = x->n_upserted > 0 ? &x->upserted[0].id : NULL;
  for (size_t i = 0; i < n; i++) {
    if (failed[i] != NULL) {
      add_row(b, from + i, failed[i], 0, 0, update, NULL);
      if (b->ordered) return;
    } else if (!b->errors_only) {
      add_row(b, from + i, NULL, insert ? 1 : x->n, x->n_modified, update, id);
    }
  }
}

static void count(struct bulk *b, enum write_kind kind, const struct write_result *x) {
  b->errors += (int64_t)x->n_errors;
  if (kind == WRITE_INSERT) {
    b->inserted += x->n;
  } else if (kind == WRITE_DELETE) {
    b->deleted += x->n;
  } else {
    b->upserted += (int64_t)x->n_upserted;
    b->matched += x->n - (int64_t)x->n_upserted;
    b->modified += x->n_modified;
  }
}

static bool run_batch(struct bulk *b, size_t from, size_t n, struct error *err) {
  struct arena *a = b->r->op->arena;
  const struct bulk_op *first = &b->ops[from];
  const char *ns = b->ns[first->ns], *coll = strchr(ns, '.') + 1;
  struct write_command w = {.kind = first->kind,
                            .db = arena_strndup(a, ns, (size_t)(coll - 1 - ns)),
                            .coll = coll,
                            .ns = ns,
                            .ordered = b->ordered,
                            .creates = first->kind == WRITE_INSERT,
                            .n = n};
  w.statements = arena_alloc(a, n * sizeof *w.statements);
  for (size_t i = 0; i < n; i++) {
    const bson_t *s = b->ops[from + i].as_sent;
    w.statements[i] = (struct write_statement){.data = bson_get_data(s), .len = s->len, .stmt_id = (int32_t)(from + i)};
    w.creates = w.creates || doc_bool(s, "upsert", false);
  }
  w.base = base_for(b, first, coll);
  struct write_result x;
  write_result_init(&x, a);
  if (!write_execute(b->r, &w, &x, err)) return false;
  count(b, w.kind, &x);
  write_result_take_concern_errors(&b->late, &x);
  add_rows(b, from, n, &x);
  return true;
}

// How many statements from here can go as one batch.
static size_t run_length(const struct bulk *b, size_t from) {
  const struct bulk_op *first = &b->ops[from];
  if (!b->errors_only && first->kind != WRITE_INSERT) return 1; // each has a row with figures of its own
  size_t n = 1;
  while (from + n < b->n && b->ops[from + n].kind == first->kind && b->ops[from + n].ns == first->ns) n++;
  return n;
}

bool run_bulk_write(struct request *r, bson_t *reply, struct error *err) {
  struct bulk b = {
      .r = r, .ordered = doc_bool(r->body, "ordered", true), .errors_only = doc_bool(r->body, "errorsOnly", false)};
  if (!read_namespaces(&b, err) || !read_ops(&b, err)) return false;
  b.rows = arena_alloc(r->op->arena, b.n * sizeof *b.rows);
  write_result_init(&b.late, r->op->arena);
  for (size_t at = 0; at < b.n && !(b.ordered && b.errors > 0);) {
    size_t n = run_length(&b, at);
    if (!run_batch(&b, at, n, err)) return false;
    at += n;
  }
  bson_t options;
  int64_t batch_size = doc_doc(r->body, "cursor", &options) ? doc_i64(&options, "batchSize", INT64_MAX) : INT64_MAX;
  struct router_cursor *c = cursor_new(router_of(r), r, "admin.$cmd.bulkWrite");
  cursor_add_documents(c, b.rows, b.n_rows);
  if (!cursor_reply(r->op, c, true, batch_size, false, reply, err)) return false;
  bson_append_int32(reply, "nErrors", -1, (int32_t)b.errors);
  bson_append_int32(reply, "nInserted", -1, (int32_t)b.inserted);
  bson_append_int32(reply, "nMatched", -1, (int32_t)b.matched);
  bson_append_int32(reply, "nModified", -1, (int32_t)b.modified);
  bson_append_int32(reply, "nUpserted", -1, (int32_t)b.upserted);
  bson_append_int32(reply, "nDeleted", -1, (int32_t)b.deleted);
  write_result_append_concern_error(&b.late, reply);
  return true;
}
