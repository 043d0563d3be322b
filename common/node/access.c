// What surrounds every command on a collection: version check, read concern, write concern, namespaces and collations
// that are refused.
#include "common/node/internal.h"

#include <string.h>

#include "common/bson/doc.h"
#include "proto/reply.h"

bool node_read_concern(struct request *r, struct error *err) {
  struct node *n = request_node(r);
  if (r->after_cluster_time > n->clock.time) {
    return error_set(err, ERR_InvalidOptions,
                     "readConcern afterClusterTime value must not be greater than the current clusterTime. Requested "
                     "clusterTime: { ts: Timestamp(%u, %u) }; current clusterTime: { ts: Timestamp(%u, %u) }",
                     (unsigned)(r->after_cluster_time >> 32), (unsigned)r->after_cluster_time,
                     (unsigned)(n->clock.time >> 32), (unsigned)n->clock.time);
  }
  if (r->after_cluster_time && !repl_wait_applied(r->op, n->repl, r->after_cluster_time, err)) return false;
  switch (r->read_level) {
  case LEVEL_SNAPSHOT:
    return error_set(err, ERR_InvalidOptions,
                     "read concern level 'snapshot' is not supported; 'majority' reads only "
                     "what is committed as well");
  case LEVEL_LINEARIZABLE:
    if (!repl_is_primary(n->repl)) {
      return error_set(err, ERR_NotWritablePrimary, "cannot satisfy linearizable read concern on non-primary node");
    }
    return repl_barrier(r->op, n->repl, err);
  case LEVEL_MAJORITY:
    // What a secondary has applied is committed; a primary must make sure that it still is one.
    return !repl_is_primary(n->repl) || repl_barrier(r->op, n->repl, err);
  case LEVEL_LOCAL:
  case LEVEL_AVAILABLE: break;
  }
  return true;
}

struct held_access {
  struct node *node;
  struct access access;
  bool entered;
};

void node_leave(struct node *n, struct access *x) {
  struct held_access *h = (struct held_access *)((char *)x - offsetof(struct held_access, access));
  if (!h->entered) return;
  h->entered = false;
  n->hooks.leave(n->hooks.ctx, x);
}

static void leave_with_arena(void *arg) {
  struct held_access *h = arg;
  node_leave(h->node, &h->access);
}

bool node_enter(struct request *r, struct arena *a, const char *ns, bool write, struct access **out,
                struct error *err) {
  struct node *n = request_node(r);
  struct held_access *h = arena_zalloc(a, sizeof *h);
  h->node = n;
  h->access.ns = arena_strdup(a, ns);
  *out = &h->access;
  if (!n->hooks.enter) return true;
  if (!n->hooks.enter(r->op, n->hooks.ctx, r, h->access.ns, write, &h->access, err)) return false;
  h->access.ns = arena_strdup(a, ns);
  h->entered = true;
  arena_on_free(a, leave_with_arena, h);
  return true;
}

bool node_still(struct node *n, const struct access *x, bool write, struct error *err) {
  if (x->ended) return error_set(err, x->ended, "the metadata that this operation on %s began with is gone", x->ns);
  return !n->hooks.still || n->hooks.still(n->hooks.ctx, x, write, err);
}

static void append_concern(const struct request *r, bson_t *info) {
  bson_t concern;
  BSON_APPEND_DOCUMENT_BEGIN(info, "writeConcern", &concern);
  bson_concat(&concern, &r->write_concern);
  if (!doc_has(&r->write_concern, "wtimeout")) BSON_APPEND_INT32(&concern, "wtimeout", 0);
  if (!doc_has(&r->write_concern, "provenance")) BSON_APPEND_UTF8(&concern, "provenance", "clientSupplied");
  bson_append_document_end(info, &concern);
}

void node_write_concern(struct request *r, uint64_t index, bson_t *reply) {
  struct node *n = request_node(r);
  if (!r->has_write_concern) return;
  struct error err = {0};
  if (repl_wait_write_concern(r->op, n->repl, index, &r->write_concern, &err)) return;
  char name[24];
  bson_t doc;
  BSON_APPEND_DOCUMENT_BEGIN(reply, "writeConcernError", &doc);
  BSON_APPEND_INT32(&doc, "code", err.code);
  BSON_APPEND_UTF8(&doc, "codeName", error_code_name(err.code, name));
  BSON_APPEND_UTF8(&doc, "errmsg", err.message);
  bson_t info;
  BSON_APPEND_DOCUMENT_BEGIN(&doc, "errInfo", &info);
  if (err.code == ERR_WriteConcernFailed) BSON_APPEND_BOOL(&info, "wtimeout", true);
  append_concern(r, &info);
  bson_append_document_end(&doc, &info);
  bson_append_document_end(reply, &doc);
}

bool node_writable_namespace(const struct request *r, const char *ns, struct error *err) {
  if (!strncmp(ns, "local.", 6)) {
    return error_set(err, ERR_InvalidNamespace, "cannot write to %s: the local database is kept by the server itself",
                     ns);
  }
  const char *coll = strchr(ns, '.');
  if (coll && !strncmp(coll, ".system.", 8) && strncmp(ns, "config.", 7) && strncmp(ns, "admin.", 6)) {
    return error_set(err, ERR_InvalidNamespace, "cannot write to '%s'", ns);
  }
  return true;
}

bool collation_is_simple(const bson_t *doc, struct error *err) {
  bson_iter_t it;
  if (!doc_get(doc, "collation", &it) || BSON_ITER_HOLDS_NULL(&it)) return true;
  if (!BSON_ITER_HOLDS_DOCUMENT(&it)) {
    return error_set(err, ERR_TypeMismatch, "BSON field 'collation' is the wrong type, expected type 'object'");
  }
  bson_iter_t child;
  bson_iter_recurse(&it, &child);
  if (!bson_iter_next(&child)) return true; // {}
  bson_iter_recurse(&it, &child);
  while (bson_iter_next(&child)) {
    if (strcmp(bson_iter_key(&child), "locale")) continue;
    if (!BSON_ITER_HOLDS_UTF8(&child)) break;
    if (!strcmp(bson_iter_utf8(&child, NULL), "simple")) return true;
    return error_set(err, ERR_CommandNotSupported,
                     "collation {locale: \"%s\"} is not supported: strings compare "
                     "byte by byte (locale \"simple\")",
                     bson_iter_utf8(&child, NULL));
  }
  return error_set(err, ERR_BadValue, "Field 'locale' is required in a collation");
}
