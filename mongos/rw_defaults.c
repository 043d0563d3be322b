// Defaults of read and write concern on a router. See rw_defaults.h.
#include "mongos/rw_defaults.h"

#include <string.h>

#include "common/base/log.h"
#include "common/bson/doc.h"
#include "mongos/forward.h"

static bson_t *find_command(struct arena *a) {
  bson_t *body = arena_bson(a), part;
  bson_append_utf8(body, "find", -1, "settings", -1);
  bson_append_document_begin(body, "filter", -1, &part);
  bson_append_utf8(&part, "_id", -1, "ReadWriteConcernDefaults", -1);
  bson_append_document_end(body, &part);
  bson_append_int32(body, "limit", -1, 1);
  bson_append_bool(body, "singleBatch", -1, true);
  bson_append_document_begin(body, "readConcern", -1, &part);
  bson_append_utf8(&part, "level", -1, "majority", -1);
  bson_append_document_end(body, &part);
  return body;
}

void rw_defaults_free(struct router *rt) {
  bson_destroy(rt->defaults.write);
  bson_destroy(rt->defaults.read);
  rt->defaults.write = rt->defaults.read = NULL;
}

static void take(struct router *rt, const bson_t *doc) {
  bson_t part;
  rw_defaults_free(rt);
  if (doc_doc(doc, "defaultReadConcern", &part)) rt->defaults.read = bson_copy(&part);
  if (!doc_doc(doc, "defaultWriteConcern", &part)) return;
  rt->defaults.write = bson_copy(&part);
  bson_append_utf8(rt->defaults.write, "provenance", -1, "customDefault", -1);
}

void rw_defaults_load(struct operation *op, struct router *rt) {
  const bson_t *reply;
  struct error err = {0};
  bson_t cursor, batch, doc = BSON_INITIALIZER;
  if (!config_call(op, rt, "config", find_command(op->arena), true, &reply, &err)) {
    log_debug("SHARDING", "The default concerns were not read", "error:e", &err);
    return;
  }
  if (doc_doc(reply, "cursor", &cursor) && doc_doc(&cursor, "firstBatch", &batch)) (void)doc_doc(&batch, "0", &doc);
  take(rt, &doc);
}

// Only these take a read concern; other reads ask about a collection rather than read it.
static bool reads_documents(const char *command) {
  static const char *const names[] = {"find", "aggregate", "count", "distinct"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (!strcmp(command, names[i])) return true;
  return false;
}

void rw_defaults_append(const struct request *r, enum call_kind kind, bson_t *body) {
  const struct router *rt = router_of(r);
  if (kind == CALL_WRITE && rt->defaults.write && !r->has_write_concern && !doc_has(body, "writeConcern"))
    bson_append_document(body, "writeConcern", -1, rt->defaults.write);
  bool read = kind == CALL_READ || kind == CALL_PARTIAL_READ;
  if (read && rt->defaults.read && !r->has_read_concern && reads_documents(r->command->name) &&
      !doc_has(body, "readConcern"))
    bson_append_document(body, "readConcern", -1, rt->defaults.read);
}

// --- commands: the config servers carry them out ---

static bool forward(struct request *r, bson_t *reply, struct error *err) {
  static const char *const own[] = {"writeConcern", NULL};
  bson_t *body = forward_body(r, own);
  return config_forward(r, "admin", body, reply, err);
}

bool run_set_rw_defaults(struct request *r, bson_t *reply, struct error *err) {
  if (!forward(r, reply, err)) return false;
  rw_defaults_load(r->op, router_of(r));
  return true;
}

bool run_get_rw_defaults(struct request *r, bson_t *reply, struct error *err) {
  return forward(r, reply, err);
}
