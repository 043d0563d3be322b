// listIndexes, listCollections, listDatabases.
#include <string.h>

#include "common/base/map.h"
#include "common/bson/doc.h"
#include "common/node/commands.h"
#include "common/node/cursors.h"
#include "common/node/internal.h"
#include "common/node/virtual.h"
#include "common/query/match.h"

static void append_element(bson_t *array, uint32_t i, const bson_t *doc) {
  char text[16];
  const char *key;
  size_t len = bson_uint32_to_string(i, &key, text, sizeof text);
  bson_append_document(array, key, (int)len, doc);
}

bool list_indexes_run(struct request *r, bson_t *reply, struct error *err) {
  struct node *n = request_node(r);
  struct access *access;
  int64_t batch_size;
  if (!request_needs_collection(r, err) || !cursor_batch_size(r->body, false, &batch_size, err) ||
      !node_read_concern(r, err) || !node_enter(r, r->op->arena, r->ns, false, &access, err)) {
    return false;
  }
  struct collection *c = store_collection(n->store, r->ns);
  if (!c) return error_set(err, ERR_NamespaceNotFound, "ns does not exist: %s", r->ns);
  struct cursor *cursor = cursor_new(r, r->ns);
  bson_t *docs = arena_bson(cursor->arena);
  uint32_t listed = 0;
  for (size_t i = 0; i < c->n_indexes; i++) {
    if (c->indexes[i]->ready) append_element(docs, listed++, c->indexes[i]->spec);
  }
  cursor_from_array(cursor, docs);
  return cursor_reply(r, cursor, batch_size, false, reply, err);
}

// --- listCollections ---

struct collections {
  struct request *r;
  bool name_only;
  const struct match *filter; // NULL = all
  bson_t *docs;
  uint32_t n;
};

static void describe(const struct collections *l, const struct collection *c, bson_t *doc) {
  bson_t info;
  BSON_APPEND_UTF8(doc, "name", c->name);
  BSON_APPEND_UTF8(doc, "type", "collection");
  if (l->name_only) return;
  BSON_APPEND_DOCUMENT(doc, "options", c->options);
  BSON_APPEND_DOCUMENT_BEGIN(doc, "info", &info);
  BSON_APPEND_BOOL(&info, "readOnly", false);
  doc_append_uuid(&info, "uuid", c->uuid);
  bson_append_document_end(doc, &info);
  BSON_APPEND_DOCUMENT(doc, "idIndex", c->indexes[0]->spec);
}

static bool list_one(void *ctx, struct collection *c) {
  struct collections *l = ctx;
  if (strcmp(c->db, l->r->db)) return true;
  bson_t *doc = arena_bson(l->r->op->arena);
  describe(l, c, doc);
  if (!l->filter || match_doc(l->filter, doc)) append_element(l->docs, l->n++, doc);
  return true;
}

static void list_virtual(void *ctx, const bson_t *doc) {
  struct collections *l = ctx;
  const bson_t *shown = doc;
  if (l->name_only) {
    bson_t *brief = arena_bson(l->r->op->arena);
    BSON_APPEND_UTF8(brief, "name", doc_str(doc, "name", ""));
    BSON_APPEND_UTF8(brief, "type", "collection");
    shown = brief;
  }
  if (!l->filter || match_doc(l->filter, shown)) append_element(l->docs, l->n++, shown);
}

bool list_collections_run(struct request *r, bson_t *reply, struct error *err) {
  struct arena *a = r->op->arena;
  struct collections l = {.r = r, .name_only = doc_bool(r->body, "nameOnly", false)};
  int64_t batch_size;
  const bson_t *filter;
  if (!cursor_batch_size(r->body, false, &batch_size, err) ||
      !optional_doc(a, r->body, "filter", false, &filter, err) || !node_read_concern(r, err)) {
    return false;
  }
  if (filter && !bson_empty(filter)) {
    l.filter = match_parse(a, filter, &(struct match_options){0}, err);
    if (!l.filter) return false;
  }
  struct cursor *c = cursor_new(r, arena_printf(a, "%s.$cmd.listCollections", r->db));
  l.docs = arena_bson(c->arena);
  store_each_collection(request_node(r)->store, list_one, &l);
  virtual_list(request_node(r), a, r->db, list_virtual, &l);
  cursor_from_array(c, l.docs);
  return cursor_reply(r, c, batch_size, false, reply, err);
}

// --- listDatabases ---

struct database_size {
  int64_t bytes;
  bool any;
};

static bool add_size(void *ctx, struct collection *c) {
  struct map *sizes = ctx;
  struct database_size *s = map_gets(sizes, c->db);
  if (!s) {
    s = calloc(1, sizeof *s);
    map_puts(sizes, c->db, s);
  }
  struct collection_stats stats;
  collection_stats(c, &stats);
  s->bytes += stats.storage_bytes;
  s->any = true;
  return true;
}

struct databases {
  struct arena *arena;
  bool name_only;
  const struct match *filter;
  bson_t *array;
  uint32_t n;
  int64_t total;
};

static bool list_database(void *ctx, const void *key, size_t len, void *value) {
  struct databases *l = ctx;
  const struct database_size *s = value;
  bson_t *doc = arena_bson(l->arena);
  BSON_APPEND_UTF8(doc, "name", arena_strndup(l->arena, key, len));
  if (!l->name_only) {
    BSON_APPEND_INT64(doc, "sizeOnDisk", s->bytes);
    BSON_APPEND_BOOL(doc, "empty", !s->any);
  }
  if (l->filter && !match_doc(l->filter, doc)) return true;
  append_element(l->array, l->n++, doc);
  l->total += s->bytes;
  return true;
}

static void free_sizes(void *arg) {
  map_free(arg, free);
}

bool list_databases_run(struct request *r, bson_t *reply, struct error *err) {
  struct arena *a = r->op->arena;
  struct databases l = {.arena = a, .name_only = doc_bool(r->body, "nameOnly", false), .array = arena_bson(a)};
  const bson_t *filter;
  if (!optional_doc(a, r->body, "filter", false, &filter, err) || !node_read_concern(r, err)) return false;
  if (filter && !bson_empty(filter)) {
    l.filter = match_parse(a, filter, &(struct match_options){0}, err);
    if (!l.filter) return false;
  }
  struct map *sizes = map_new();
  arena_on_free(a, free_sizes, sizes);
  store_each_collection(request_node(r)->store, add_size, sizes); // in order of names
  map_each(sizes, list_database, &l);
  BSON_APPEND_ARRAY(reply, "databases", l.array);
  if (l.name_only) return true;
  BSON_APPEND_INT64(reply, "totalSize", l.total);
  BSON_APPEND_INT64(reply, "totalSizeMb", l.total / (1024 * 1024));
  return true;
}
