// Pipeline stages that make their own documents. See initial_stages.h.
#include "common/node/initial_stages.h"

#include <string.h>

#include "common/base/clock.h"
#include "common/bson/doc.h"
#include "common/node/current_op.h"
#include "common/node/internal.h"
#include "common/node/stats.h"
#include "common/node/virtual.h"

struct stage_request {
  struct request *r;
  struct arena *arena;
  const char *ns;
  bool collectionless;
  const bson_t *argument; // {} unless it is a document
  const bson_value_t *value;
  struct variables *vars;
  bson_t *docs;
};

static void append_doc(struct stage_request *s, const bson_t *doc) {
  char text[16];
  const char *key;
  bson_uint32_to_string(bson_count_keys(s->docs), &key, text, sizeof text);
  BSON_APPEND_DOCUMENT(s->docs, key, doc);
}

static bool needs_collection(const struct stage_request *s, const char *stage, struct error *err) {
  if (!s->collectionless) return true;
  return error_set(err, ERR_InvalidNamespace, "{aggregate: 1} is not valid for '%s'; a collection is required.", stage);
}

static bool needs_database(const struct stage_request *s, const char *stage, struct error *err) {
  if (s->collectionless) return true;
  return error_set(err, ERR_InvalidNamespace, "%s must be run against a database: {aggregate: 1}", stage);
}

// --- $collStats ---

static bool coll_stats_part(struct stage_request *s, const struct collection *c, const bson_iter_t *part, bson_t *out,
                            struct error *err) {
  struct node *n = request_node(s->r);
  const char *name = bson_iter_key(part);
  const bson_t *options = iter_child(s->arena, part);
  bson_t doc;
  if (!strcmp(name, "storageStats")) {
    int64_t scale;
    if (!stats_scale(options, &scale, err)) return false;
    BSON_APPEND_DOCUMENT_BEGIN(out, name, &doc);
    if (!c && virtual_is(s->ns))
      virtual_storage_stats(n, s->ns, scale, &doc);
    else
      storage_stats_append(n, c, scale, &doc);
    bson_append_document_end(out, &doc);
  } else if (!strcmp(name, "latencyStats")) {
    static const uint8_t nobody[16];
    BSON_APPEND_DOCUMENT_BEGIN(out, name, &doc);
    usage_latency_stats(n, c ? c->uuid : nobody, &doc);
    bson_append_document_end(out, &doc);
  } else if (!strcmp(name, "count")) {
    struct collection_stats stats;
    if (!c && virtual_is(s->ns)) {
      doc_append_num(out, "count", virtual_count(n, s->ns));
      return true;
    }
    if (!c)
      return error_set(err, ERR_NamespaceNotFound,
                       "Unable to retrieve count in $collStats stage :: caused by :: "
                       "Collection [%s] not found.",
                       s->ns);
    collection_stats(c, &stats);
    doc_append_num(out, "count", stats.count);
  } else if (!strcmp(name, "queryExecStats")) {
    bson_t scans;
    BSON_APPEND_DOCUMENT_BEGIN(out, name, &doc);
    BSON_APPEND_DOCUMENT_BEGIN(&doc, "collectionScans", &scans);
    BSON_APPEND_INT64(&scans, "total", 0);
    BSON_APPEND_INT64(&scans, "nonTailable", 0);
    bson_append_document_end(&doc, &scans);
    bson_append_document_end(out, &doc);
  } else {
    return error_set(err, 40168, "unrecognized option to $collStats: %s", name);
  }
  return true;
}

static bool coll_stats(struct stage_request *s, struct error *err) {
  struct node *n = request_node(s->r);
  struct access *access;
  if (!needs_collection(s, "$collStats", err) || !node_enter(s->r, s->arena, s->ns, false, &access, err)) return false;
  const struct collection *c = store_collection(n->store, s->ns);
  bson_t *doc = arena_bson(s->arena);
  BSON_APPEND_UTF8(doc, "ns", s->ns);
  BSON_APPEND_UTF8(doc, "host", n->host_port);
  BSON_APPEND_DATE_TIME(doc, "localTime", clock_wall_ms());
  bson_iter_t it;
  bson_iter_init(&it, s->argument);
  while (bson_iter_next(&it)) {
    if (!coll_stats_part(s, c, &it, doc, err)) return false;
  }
  append_doc(s, doc);
  return true;
}

// --- $indexStats ---

static bool index_stats(struct stage_request *s, struct error *err) {
  struct node *n = request_node(s->r);
  struct access *access;
  if (!needs_collection(s, "$indexStats", err) || !node_enter(s->r, s->arena, s->ns, false, &access, err)) return false;
  const struct collection *c = store_collection(n->store, s->ns);
  for (size_t i = 0; c && i < c->n_indexes; i++) {
    const struct index *x = c->indexes[i];
    bson_t *doc = arena_bson(s->arena), accesses;
    BSON_APPEND_UTF8(doc, "name", x->name);
    BSON_APPEND_DOCUMENT(doc, "key", x->key);
    BSON_APPEND_UTF8(doc, "host", n->host_port);
    BSON_APPEND_DOCUMENT_BEGIN(doc, "accesses", &accesses);
    BSON_APPEND_INT64(&accesses, "ops", usage_index_ops(n, c->uuid, x->id));
    BSON_APPEND_DATE_TIME(&accesses, "since", n->own->started_wall_ms);
    bson_append_document_end(doc, &accesses);
    BSON_APPEND_DOCUMENT(doc, "spec", x->spec);
    if (!x->ready) BSON_APPEND_BOOL(doc, "building", true);
    append_doc(s, doc);
  }
  return true;
}

// --- $currentOp, sessions, $documents ---

static bool current_op(struct stage_request *s, struct error *err) {
  if (!needs_database(s, "$currentOp", err)) return false;
  if (strcmp(s->r->db, "admin")) {
    return error_set(err, ERR_InvalidNamespace,
                     "$currentOp must be run against the 'admin' database with {aggregate: 1}");
  }
  current_ops(request_node(s->r), doc_bool(s->argument, "idleCursors", false), s->docs);
  return true;
}

static bool no_documents(struct stage_request *s, struct error *err) {
  return true; // sessions are made by clients and kept nowhere but in their write records
}

static bool documents(struct stage_request *s, struct error *err) {
  if (!needs_database(s, "$documents", err)) return false;
  struct expression *e = expression_parse(s->arena, s->value, s->vars, err);
  bson_t *nothing = arena_bson(s->arena);
  bson_value_t list;
  if (!e || !expression_eval(e, s->arena, nothing, &list, err)) return false;
  if (list.value_type != BSON_TYPE_ARRAY) return error_set(err, 5858203, "an array is expected");
  bson_iter_t it;
  bson_iter_init(&it, value_child(s->arena, &list));
  while (bson_iter_next(&it)) {
    if (!BSON_ITER_HOLDS_DOCUMENT(&it)) return error_set(err, 40228, "$documents needs an array of objects");
    append_doc(s, iter_child(s->arena, &it));
  }
  return true;
}

struct initial_stage {
  const char *name;
  bool (*run)(struct stage_request *s, struct error *err);
};

static const struct initial_stage stages[] = {
    {"$collStats", coll_stats},      {"$indexStats", index_stats},         {"$currentOp", current_op},
    {"$listSessions", no_documents}, {"$listLocalSessions", no_documents}, {"$documents", documents},
};

bool initial_stage_documents(struct request *r, struct arena *a, const char *ns, const char *stage,
                             const bson_value_t *argument, struct variables *vars, bson_t *docs, struct error *err) {
  struct stage_request s = {.r = r, .arena = a, .ns = ns, .value = argument, .vars = vars, .docs = docs};
  s.collectionless = strstr(ns, ".$cmd.aggregate") != NULL;
  s.argument = value_child(a, argument);
  for (size_t i = 0; i < sizeof stages / sizeof *stages; i++) {
    if (!strcmp(stages[i].name, stage)) return stages[i].run(&s, err);
  }
  return error_set(err, ERR_CommandNotSupported, "pipeline stage %s is not supported on a %s", stage,
                   request_node(r)->program);
}
