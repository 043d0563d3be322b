// Reading the catalog's documents on the config server itself.
#include "configsvr/catalog_read.h"

#include <string.h>

#include "common/bson/doc.h"

bool catalog_read_doc(struct config_server *cs, struct arena *a, const char *ns, const char *id, const bson_t **doc) {
  bson_value_t value = value_str(id);
  return local_find_id(&cs->node, a, ns, &value, doc);
}

bool catalog_read_collection(struct config_server *cs, struct arena *a, const char *ns, struct collection_type *out,
                             bool *found, struct error *err) {
  const bson_t *doc;
  *found = catalog_read_doc(cs, a, "config.collections", ns, &doc);
  return !*found || collection_type_parse(a, doc, out, err) || error_prefix(err, "config.collections of %s", ns);
}

bool catalog_read_database(struct config_server *cs, struct arena *a, const char *db, struct database_type *out,
                           bool *found, struct error *err) {
  const bson_t *doc;
  *found = catalog_read_doc(cs, a, "config.databases", db, &doc);
  return !*found || database_type_parse(a, doc, out, err) || error_prefix(err, "config.databases of %s", db);
}

bool catalog_read_shard(struct config_server *cs, struct arena *a, const char *name, struct shard_type *out,
                        bool *found, struct error *err) {
  const bson_t *doc;
  *found = catalog_read_doc(cs, a, "config.shards", name, &doc);
  return !*found || shard_type_parse(a, doc, out, err) || error_prefix(err, "config.shards of %s", name);
}

bool catalog_need_collection(struct config_server *cs, struct arena *a, const char *ns, struct collection_type *out,
                             struct error *err) {
  bool found;
  if (!catalog_read_collection(cs, a, ns, out, &found, err)) return false;
  return found || error_set(err, ERR_NamespaceNotSharded, "Expected collection %s to be sharded", ns);
}

bool catalog_need_shard(struct config_server *cs, struct arena *a, const char *name, struct shard_type *out,
                        struct error *err) {
  bool found;
  if (!catalog_read_shard(cs, a, name, out, &found, err)) return false;
  return found || error_set(err, ERR_ShardNotFound, "Shard %s not found", name);
}

bool catalog_read_shards(struct config_server *cs, struct arena *a, struct shard_type **out, size_t *n,
                         struct error *err) {
  const bson_t **docs;
  bson_t none = BSON_INITIALIZER;
  *n = local_find(&cs->node, a, "config.shards", &none, NULL, 0, &docs);
  *out = arena_alloc(a, *n * sizeof **out);
  for (size_t i = 0; i < *n; i++) {
    if (!shard_type_parse(a, docs[i], &(*out)[i], err)) return error_prefix(err, "config.shards");
  }
  return true;
}

bool catalog_read_tags(struct config_server *cs, struct arena *a, const char *ns, struct tag_type **out, size_t *n,
                       struct error *err) {
  const bson_t **docs;
  bson_t *filter = arena_bson(a), *sort = arena_bson(a);
  bson_append_utf8(filter, "ns", -1, ns, -1);
  bson_append_int32(sort, "min", -1, 1);
  *n = local_find(&cs->node, a, "config.tags", filter, sort, 0, &docs);
  *out = arena_alloc(a, *n * sizeof **out);
  for (size_t i = 0; i < *n; i++) {
    if (!tag_type_parse(a, docs[i], &(*out)[i], err)) return error_prefix(err, "config.tags of %s", ns);
  }
  return true;
}

bool catalog_read_settings(struct config_server *cs, struct arena *a, struct balancer_settings *out,
                           struct error *err) {
  const bson_t **docs;
  bson_t none = BSON_INITIALIZER;
  size_t n = local_find(&cs->node, a, "config.settings", &none, NULL, 0, &docs);
  return settings_read(docs, n, out, err);
}

static bool is_in(const char *const *names, const char *name) {
  for (; names && *names; names++) {
    if (strcmp(*names, name) == 0) return true;
  }
  return false;
}

const bson_t *doc_with(struct arena *a, const bson_t *doc, const bson_t *set, const char *const *unset) {
  bson_t *out = arena_bson(a);
  bson_iter_t it, with;
  bson_iter_init(&it, doc);
  while (bson_iter_next(&it)) {
    const char *name = bson_iter_key(&it);
    if (is_in(unset, name)) continue;
    doc_append_iter(out, name, set && bson_iter_init_find(&with, set, name) ? &with : &it);
  }
  if (!set) return out;
  bson_iter_init(&with, set);
  while (bson_iter_next(&with)) {
    if (!doc_has(doc, bson_iter_key(&with))) doc_append_iter(out, bson_iter_key(&with), &with);
  }
  return out;
}
