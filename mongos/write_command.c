// Reading a client's insert, update or delete: statements stay the bytes they arrived as.
#include "mongos/write_command.h"

#include <string.h>

#include "common/bson/doc.h"
#include "mongos/forward.h"

enum { STATEMENTS_MAX = MESSAGE_MAX_STATEMENTS };

const char *write_statements_field(enum write_kind kind) {
  return kind == WRITE_INSERT ? "documents" : kind == WRITE_UPDATE ? "updates" : "deletes";
}

// A statement's number for retries: its place, unless the client (another router) numbers them itself.
static bool number_statements(struct request *r, struct write_command *w, struct error *err) {
  bson_t ids;
  bson_iter_t it;
  uint64_t from = (uint64_t)doc_i64(r->body, "stmtId", 0);
  for (size_t i = 0; i < w->n; i++) w->statements[i].stmt_id = (int32_t)(from + i); // may wrap, clients choose
  if (!doc_doc(r->body, "stmtIds", &ids)) return true;
  if (bson_count_keys(&ids) != w->n) {
    return error_set(err, ERR_InvalidLength,
                     "Number of statement ids must match the number of batch entries. Got %u "
                     "statement ids but %zu operations",
                     bson_count_keys(&ids), w->n);
  }
  size_t i = 0;
  for (bool more = bson_iter_init(&it, &ids); more && bson_iter_next(&it);) {
    w->statements[i++].stmt_id = (int32_t)iter_i64(&it);
  }
  return true;
}

// What children repeat of the command: all but statements and their numbers. An unacknowledged write is acknowledged
// between router and shard.
static const bson_t *base_of(struct request *r, enum write_kind kind) {
  const char *const with_concern[] = {write_statements_field(kind), "stmtIds", "stmtId", NULL};
  const char *const without_concern[] = {write_statements_field(kind), "stmtIds", "stmtId", "writeConcern", NULL};
  bool unacknowledged = r->has_write_concern && doc_has(&r->write_concern, "w") &&
                        doc_str(&r->write_concern, "w", NULL) == NULL && doc_i64(&r->write_concern, "w", 1) == 0;
  return forward_body(r, unacknowledged ? without_concern : with_concern);
}

static bool any_upsert(const struct write_command *w) {
  for (size_t i = 0; i < w->n; i++) {
    bson_t statement;
    doc_view(&statement, w->statements[i].data, w->statements[i].len);
    if (doc_bool(&statement, "upsert", false)) return true;
  }
  return false;
}

bool write_command_parse(struct request *r, enum write_kind kind, struct write_command *out, struct error *err) {
  *out = (struct write_command){.kind = kind, .db = r->db, .ordered = doc_bool(r->body, "ordered", true)};
  if (!request_needs_collection(r, err)) return false;
  out->coll = r->coll;
  out->ns = r->ns;
  struct documents documents;
  if (!request_documents(r, write_statements_field(kind), &documents, err)) return false;
  if (documents.count == 0 || documents.count > STATEMENTS_MAX) {
    return error_set(err, ERR_InvalidLength, "Write batch sizes must be between 1 and %d. Got %zu operations.",
                     STATEMENTS_MAX, documents.count);
  }
  out->statements = arena_alloc(r->op->arena, documents.count * sizeof *out->statements);
  bson_t doc;
  while (documents_next(&documents, &doc)) {
    out->statements[out->n++] = (struct write_statement){.data = bson_get_data(&doc), .len = doc.len};
  }
  if (!number_statements(r, out, err)) return false;
  out->creates = kind == WRITE_INSERT || (kind == WRITE_UPDATE && any_upsert(out));
  out->base = base_of(r, kind);
  enum opcounter counter = kind == WRITE_INSERT ? OPS_INSERT : kind == WRITE_UPDATE ? OPS_UPDATE : OPS_DELETE;
  router_of(r)->ops[counter] += (int64_t)out->n;
  return true;
}
