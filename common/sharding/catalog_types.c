// The documents of config.*: parsing and writing them in MongoDB's field order (reference/sharding.md 1.1).
#include "common/sharding/catalog_types.h"

#include "common/bson/doc.h"

// --- fields, with errors that name them ---

static bool field(const bson_t *doc, const char *name, bson_iter_t *it, struct error *err) {
  return doc_get(doc, name, it) || error_set(err, ERR_NoSuchKey, "Missing expected field \"%s\"", name);
}

static bool wrong_type(const char *name, const char *expected, struct error *err) {
  return error_set(err, ERR_TypeMismatch, "\"%s\" had the wrong type. Expected %s", name, expected);
}

static bool read_str(struct arena *a, const bson_t *doc, const char *name, const char **out, struct error *err) {
  bson_iter_t it;
  if (!field(doc, name, &it, err)) return false;
  if (!BSON_ITER_HOLDS_UTF8(&it)) return wrong_type(name, "string", err);
  uint32_t len;
  const char *s = bson_iter_utf8(&it, &len);
  *out = arena_strndup(a, s, len);
  return true;
}

// A copy of an embedded document or array.
static const bson_t *copy_of(struct arena *a, const bson_iter_t *it) {
  const uint8_t *data;
  uint32_t len;
  if (BSON_ITER_HOLDS_ARRAY(it)) {
    bson_iter_array(it, &len, &data);
  } else {
    bson_iter_document(it, &len, &data);
  }
  return arena_bson_copy(a, data, len);
}

static bool read_doc(struct arena *a, const bson_t *doc, const char *name, const bson_t **out, struct error *err) {
  bson_iter_t it;
  if (!field(doc, name, &it, err)) return false;
  if (!BSON_ITER_HOLDS_DOCUMENT(&it)) return wrong_type(name, "object", err);
  *out = copy_of(a, &it);
  return true;
}

static bool read_oid(const bson_t *doc, const char *name, bson_oid_t *out, struct error *err) {
  bson_iter_t it;
  if (!field(doc, name, &it, err)) return false;
  return doc_oid(doc, name, out) || wrong_type(name, "objectId", err);
}

static bool read_uuid(const bson_t *doc, const char *name, uint8_t out[16], struct error *err) {
  bson_iter_t it;
  if (!field(doc, name, &it, err)) return false;
  return doc_uuid(doc, name, out) || wrong_type(name, "UUID (binData of subtype 4)", err);
}

static bool read_ts(const bson_t *doc, const char *name, uint64_t *out, struct error *err) {
  bson_iter_t it;
  if (!field(doc, name, &it, err)) return false;
  return doc_timestamp(doc, name, out) || wrong_type(name, "timestamp", err);
}

static void append_str(bson_t *doc, const char *name, const char *s) {
  bson_append_utf8(doc, name, -1, s, -1);
}

// --- config.shards ---

bool shard_type_parse(struct arena *a, const bson_t *doc, struct shard_type *out, struct error *err) {
  *out = (struct shard_type){0};
  if (!read_str(a, doc, "_id", &out->name, err) || !read_str(a, doc, "host", &out->host, err)) return false;
  out->draining = doc_bool(doc, "draining", false);
  bson_iter_t it;
  if (doc_get(doc, "tags", &it) && BSON_ITER_HOLDS_ARRAY(&it)) out->tags = copy_of(a, &it);
  doc_timestamp(doc, "topologyTime", &out->topology_time);
  return true;
}

bool tags_name_zone(const bson_t *tags, const char *zone) {
  bson_iter_t it;
  if (!tags || !bson_iter_init(&it, tags)) return false;
  while (bson_iter_next(&it)) {
    if (BSON_ITER_HOLDS_UTF8(&it) && strcmp(bson_iter_utf8(&it, NULL), zone) == 0) return true;
  }
  return false;
}

const bson_t *shard_type_doc(struct arena *a, const struct shard_type *t) {
  bson_t *d = arena_bson(a);
  append_str(d, "_id", t->name);
  append_str(d, "host", t->host);
  if (t->tags) doc_append_array(d, "tags", t->tags);
  bson_append_int32(d, "state", -1, 1); // shard aware
  doc_append_ts(d, "topologyTime", t->topology_time);
  bson_append_int64(d, "replSetConfigVersion", -1, -1); // not yet known
  if (t->draining) bson_append_bool(d, "draining", -1, true);
  return d;
}

// --- config.databases ---

bool database_type_parse(struct arena *a, const bson_t *doc, struct database_type *out, struct error *err) {
  *out = (struct database_type){0};
  const bson_t *version;
  return read_str(a, doc, "_id", &out->name, err) && read_str(a, doc, "primary", &out->primary, err) &&
         read_doc(a, doc, "version", &version, err) && database_version_parse(version, &out->version, err);
}

const bson_t *database_type_doc(struct arena *a, const struct database_type *t) {
  bson_t *d = arena_bson(a);
  append_str(d, "_id", t->name);
  append_str(d, "primary", t->primary);
  database_version_append(d, "version", &t->version);
  return d;
}

// --- config.collections ---

static void read_collection_options(struct arena *a, const bson_t *doc, struct collection_type *out) {
  bson_iter_t it;
  if (doc_get(doc, "defaultCollation", &it) && BSON_ITER_HOLDS_DOCUMENT(&it)) {
    const bson_t *c = copy_of(a, &it);
    if (!bson_empty(c)) out->default_collation = c;
  }
  if (doc_get(doc, "lastmod", &it) && BSON_ITER_HOLDS_DATE_TIME(&it)) out->lastmod_ms = bson_iter_date_time(&it);
  out->unique = doc_bool(doc, "unique", false);
  out->max_chunk_size_bytes = doc_i64(doc, "maxChunkSizeBytes", 0);
  out->no_balance = doc_bool(doc, "noBalance", false);
  out->allow_migrations = doc_bool(doc, "allowMigrations", true);
  out->permit_migrations = doc_bool(doc, "permitMigrations", true);
  out->has_enable_auto_merge = doc_has(doc, "enableAutoMerge");
  out->enable_auto_merge = doc_bool(doc, "enableAutoMerge", true);
  out->defragment = doc_bool(doc, "defragmentCollection", false);
  out->unsplittable = doc_bool(doc, "unsplittable", false);
}

bool collection_type_parse(struct arena *a, const bson_t *doc, struct collection_type *out, struct error *err) {
  *out = (struct collection_type){0};
  if (!read_str(a, doc, "_id", &out->ns, err) || !read_oid(doc, "lastmodEpoch", &out->epoch, err) ||
      !read_ts(doc, "timestamp", &out->timestamp, err) || !read_uuid(doc, "uuid", out->uuid, err) ||
      !read_doc(a, doc, "key", &out->key, err)) {
    return false;
  }
  read_collection_options(a, doc, out);
  return true;
}

const bson_t *collection_type_doc(struct arena *a, const struct collection_type *t) {
  bson_t *d = arena_bson(a);
  append_str(d, "_id", t->ns);
  bson_append_oid(d, "lastmodEpoch", -1, &t->epoch);
  bson_append_date_time(d, "lastmod", -1, t->lastmod_ms);
  doc_append_ts(d, "timestamp", t->timestamp);
  doc_append_uuid(d, "uuid", t->uuid);
  bson_append_document(d, "key", -1, t->key);
  if (t->default_collation) bson_append_document(d, "defaultCollation", -1, t->default_collation);
  bson_append_bool(d, "unique", -1, t->unique);
  if (t->max_chunk_size_bytes > 0) bson_append_int64(d, "maxChunkSizeBytes", -1, t->max_chunk_size_bytes);
  if (t->defragment) bson_append_bool(d, "defragmentCollection", -1, true);
  if (t->has_enable_auto_merge) bson_append_bool(d, "enableAutoMerge", -1, t->enable_auto_merge);
  bson_append_bool(d, "noBalance", -1, t->no_balance);
  if (!t->allow_migrations) bson_append_bool(d, "allowMigrations", -1, false);
  if (t->unsplittable) bson_append_bool(d, "unsplittable", -1, true);
  if (!t->permit_migrations) bson_append_bool(d, "permitMigrations", -1, false);
  return d;
}

// --- config.chunks ---

static bool read_history(struct arena *a, const bson_t *doc, struct chunk_type *out, struct error *err) {
  bson_t array;
  if (!doc_doc(doc, "history", &array)) return true;
  out->history = arena_alloc(a, bson_count_keys(&array) * sizeof *out->history);
  bson_iter_t it;
  bson_iter_init(&it, &array);
  while (bson_iter_next(&it)) {
    if (!BSON_ITER_HOLDS_DOCUMENT(&it)) return wrong_type("history", "array of objects", err);
    const bson_t *entry = copy_of(a, &it);
    struct chunk_history *h = &out->history[out->n_history++];
    if (!read_ts(entry, "validAfter", &h->valid_after, err) || !read_str(a, entry, "shard", &h->shard, err))
      return false;
  }
  return true;
}

bool chunk_type_parse(struct arena *a, const bson_t *doc, struct chunk_type *out, struct error *err) {
  *out = (struct chunk_type){0};
  uint64_t lastmod;
  if (!read_oid(doc, "_id", &out->id, err) || !read_uuid(doc, "uuid", out->uuid, err) ||
      !read_doc(a, doc, "min", &out->min, err) || !read_doc(a, doc, "max", &out->max, err) ||
      !read_str(a, doc, "shard", &out->shard, err) || !read_ts(doc, "lastmod", &lastmod, err) ||
      !read_history(a, doc, out, err)) {
    return false;
  }
  out->major = (uint32_t)(lastmod >> 32);
  out->minor = (uint32_t)lastmod;
  out->has_jumbo = doc_has(doc, "jumbo");
  out->jumbo = doc_bool(doc, "jumbo", false);
  doc_timestamp(doc, "onCurrentShardSince", &out->on_current_shard_since);
  return true;
}

static void append_history(bson_t *d, const struct chunk_type *t) {
  bson_t array, entry;
  char buf[16];
  bson_append_array_begin(d, "history", -1, &array);
  for (size_t i = 0; i < t->n_history; i++) {
    const char *index;
    size_t len = bson_uint32_to_string((uint32_t)i, &index, buf, sizeof buf);
    bson_append_document_begin(&array, index, (int)len, &entry);
    doc_append_ts(&entry, "validAfter", t->history[i].valid_after);
    append_str(&entry, "shard", t->history[i].shard);
    bson_append_document_end(&array, &entry);
  }
  bson_append_array_end(d, &array);
}

const bson_t *chunk_type_doc(struct arena *a, const struct chunk_type *t) {
  bson_t *d = arena_bson(a);
  bson_append_oid(d, "_id", -1, &t->id);
  doc_append_uuid(d, "uuid", t->uuid);
  bson_append_document(d, "min", -1, t->min);
  bson_append_document(d, "max", -1, t->max);
  append_str(d, "shard", t->shard);
  doc_append_ts(d, "lastmod", (uint64_t)t->major << 32 | t->minor);
  if (t->has_jumbo) bson_append_bool(d, "jumbo", -1, t->jumbo);
  doc_append_ts(d, "onCurrentShardSince", t->on_current_shard_since);
  append_history(d, t);
  return d;
}

// --- config.tags ---

bool tag_type_parse(struct arena *a, const bson_t *doc, struct tag_type *out, struct error *err) {
  *out = (struct tag_type){0};
  return read_oid(doc, "_id", &out->id, err) && read_str(a, doc, "ns", &out->ns, err) &&
         read_doc(a, doc, "min", &out->min, err) && read_doc(a, doc, "max", &out->max, err) &&
         read_str(a, doc, "tag", &out->tag, err);
}

const bson_t *tag_type_doc(struct arena *a, const struct tag_type *t) {
  bson_t *d = arena_bson(a);
  bson_append_oid(d, "_id", -1, &t->id);
  append_str(d, "ns", t->ns);
  bson_append_document(d, "min", -1, t->min);
  bson_append_document(d, "max", -1, t->max);
  append_str(d, "tag", t->tag);
  return d;
}
