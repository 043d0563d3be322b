// Commands about databases: enableSharding, dropDatabase, listDatabases.
#include <stdlib.h>
#include <string.h>

#include "common/bson/doc.h"
#include "mongos/body.h"
#include "mongos/ddl.h"
#include "mongos/forward.h"
#include "mongos/routing_cache.h"

static bool run_enable_sharding(struct request *r, bson_t *reply, struct error *err) {
  const char *db;
  if (!request_required_str(r, r->name, &db, err)) return false;
  bson_t *body = arena_bson(r->op->arena);
  bson_append_utf8(body, "_configsvrCreateDatabase", -1, db, -1);
  const char *primary = doc_str(r->body, "primaryShard", NULL);
  if (primary != NULL) bson_append_utf8(body, "primaryShardId", -1, primary, -1);
  append_majority_concern(body, r);
  const bson_t *ignored;
  bool ok = config_call(r->op, router_of(r), "admin", body, true, &ignored, err);
  routing_cache_invalidate_database(router_of(r)->cache, db, NULL);
  return ok;
}

static bool run_drop_database(struct request *r, bson_t *reply, struct error *err) {
  struct router *rt = router_of(r);
  if (database_is_on_config(r->db)) {
    return error_set(err, ERR_InvalidOptions, "Cannot drop '%s' database via mongos", r->db);
  }
  bson_t *body = arena_bson(r->op->arena);
  bson_append_int32(body, "_shardsvrDropDatabase", -1, 1);
  append_majority_concern(body, r);
  const bson_t *answer;
  bool ok = primary_call(r, r->db, NULL, false, body, &answer, err);
  routing_cache_forget_database(rt->cache, r->db);
  return ok;
}

// --- listDatabases ---

struct database_size {
  const char *name;
  int64_t bytes;
  bson_t *shards; // {<shard>: bytes}
};

struct database_list {
  struct database_size *items;
  size_t n, cap;
};

static struct database_size *size_of(struct arena *a, struct database_list *list, const char *name) {
  for (size_t i = 0; i < list->n; i++) {
    if (strcmp(list->items[i].name, name) == 0) return &list->items[i];
  }
  list->items = array_grow(list->items, &list->cap, list->n + 1, sizeof *list->items);
  struct database_size *d = &list->items[list->n++];
  *d = (struct database_size){.name = arena_strdup(a, name), .shards = arena_bson(a)};
  return d;
}

static bool hidden(const char *name, bool from_config) {
  if (strcmp(name, "local") == 0) return true;
  return !from_config && (strcmp(name, "admin") == 0 || strcmp(name, "config") == 0);
}

static void add_databases(struct arena *a, struct database_list *list, const struct shard_call *call) {
  bson_t databases;
  bson_iter_t it;
  bool from_config = call->target.shard == NULL;
  if (!doc_doc(call->reply, "databases", &databases) || !bson_iter_init(&it, &databases)) return;
  while (bson_iter_next(&it)) {
    bson_t entry;
    iter_doc(&entry, &it);
    const char *name = doc_str(&entry, "name", "");
    if (hidden(name, from_config)) continue;
    // The config servers' other databases are not the cluster's.
    if (from_config && strcmp(name, "admin") != 0 && strcmp(name, "config") != 0) continue;
    struct database_size *d = size_of(a, list, name);
    int64_t bytes = doc_i64(&entry, "sizeOnDisk", 0);
    d->bytes += bytes;
    doc_append_num(d->shards, from_config ? "config" : call->target.shard, bytes);
  }
}

static int compare_names(const void *a, const void *b) {
  return strcmp(((const struct database_size *)a)->name, ((const struct database_size *)b)->name);
}

static bool passes(const struct match *filter, const struct database_size *d) {
  if (filter == NULL) return true;
  bson_t row = BSON_INITIALIZER;
  bson_append_utf8(&row, "name", -1, d->name, -1);
  bson_append_int64(&row, "sizeOnDisk", -1, d->bytes);
  bson_append_bool(&row, "empty", -1, d->bytes == 0);
  bool ok = match_doc(filter, &row);
  bson_destroy(&row);
  return ok;
}

static void reply_databases(const struct database_list *list, const struct match *filter, bool name_only,
                            bson_t *reply) {
  bson_t array;
  uint32_t at = 0;
  int64_t total = 0;
  bson_append_array_begin(reply, "databases", -1, &array);
  for (size_t i = 0; i < list->n; i++) {
    const struct database_size *d = &list->items[i];
    if (!passes(filter, d)) continue;
    char text[16];
    const char *key;
    size_t len = bson_uint32_to_string(at++, &key, text, sizeof text);
    bson_t row;
    bson_append_document_begin(&array, key, (int)len, &row);
    bson_append_utf8(&row, "name", -1, d->name, -1);
    if (!name_only) {
      bson_append_int64(&row, "sizeOnDisk", -1, d->bytes);
      bson_append_bool(&row, "empty", -1, d->bytes <= 1);
      bson_append_document(&row, "shards", -1, d->shards);
    }
    bson_append_document_end(&array, &row);
    total += d->bytes;
  }
  bson_append_array_end(reply, &array);
  if (name_only) return;
  doc_append_num(reply, "totalSize", total);
  doc_append_num(reply, "totalSizeMb", total / (1024 * 1024));
}

static bool run_list_databases(struct request *r, bson_t *reply, struct error *err) {
  struct router *rt = router_of(r);
  struct arena *a = r->op->arena;
  struct shard_type *shards;
  size_t n;
  bson_t filter_doc;
  struct match_options options = {0};
  const struct match *filter = NULL;
  if (!body_document(r, "filter", &filter_doc, err)) return false;
  if (!bson_empty(&filter_doc) && (filter = match_parse(a, &filter_doc, &options, err)) == NULL) return false;
  if (!shard_registry_all(r->op, rt->shards, true, &shards, &n, err)) return false;
  struct target *targets = arena_alloc(a, (n + 1) * sizeof *targets);
  for (size_t i = 0; i < n; i++) targets[i] = target_unversioned(shards[i].name);
  targets[n] = target_config();
  bson_t *body = arena_bson(a);
  bson_append_int32(body, "listDatabases", -1, 1);
  struct shard_call *calls = shard_calls_new(a, targets, n + 1, body);
  for (size_t i = 0; i <= n; i++) calls[i].db = "admin";
  shard_calls_run(r, r->op, calls, n + 1, CALL_READ);
  struct placement none = {.kind = PLACE_NOWHERE, .ns = "admin", .db = "admin"};
  if (!shard_calls_ok(rt, &none, calls, n + 1, err)) return false;
  struct database_list list = {0};
  for (size_t i = 0; i <= n; i++) add_databases(a, &list, &calls[i]);
  if (list.n > 0) qsort(list.items, list.n, sizeof *list.items, compare_names);
  reply_databases(&list, filter, doc_bool(r->body, "nameOnly", false), reply);
  free(list.items);
  return true;
}

const struct command router_database_commands[] = {
    {"enableSharding", "enablesharding", CMD_WRITE | CMD_ADMIN_ONLY, run_enable_sharding, "creates a database"},
    {"dropDatabase", NULL, CMD_WRITE, run_drop_database, "drops a database with all its collections"},
    {"listDatabases", NULL, CMD_READ | CMD_ADMIN_ONLY, run_list_databases, "all databases, with sizes by shard"},
    {"movePrimary", "moveprimary", CMD_WRITE | CMD_ADMIN_ONLY, run_not_supported, "not supported"},
    {"changePrimary", NULL, CMD_WRITE | CMD_ADMIN_ONLY, run_not_supported, "not supported"},
    {NULL, NULL, 0, NULL, NULL},
};
