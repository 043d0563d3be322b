// config.chunks looked up through its indexes.
#include "configsvr/chunk_table.h"

#include <string.h>

#include "common/bson/compare.h"
#include "common/bson/doc.h"
#include "common/store/scan.h"

// --- a walk over one index of config.chunks ---

struct walk {
  struct arena *arena;
  struct scan *scan; // NULL: nothing to see
  const char *shard; // NULL = of any: others are passed over without being copied
};

static const struct index *index_by_fields(struct collection *c, const char *const *fields) {
  bson_t key = BSON_INITIALIZER;
  for (; *fields; fields++) bson_append_int32(&key, *fields, -1, 1);
  const struct index *i = collection_index_by_key(c, &key);
  bson_destroy(&key);
  return i;
}

static const char *const by_min[] = {"uuid", "min", NULL};
static const char *const by_shard[] = {"uuid", "shard", "min", NULL};
static const char *const by_version[] = {"uuid", "lastmod", NULL};

static void append_uuid(struct buf *b, const uint8_t uuid[16]) {
  bson_value_t v = {.value_type = BSON_TYPE_BINARY};
  v.value.v_binary.data = (uint8_t *)uuid;
  v.value.v_binary.data_len = 16;
  v.value.v_binary.subtype = BSON_SUBTYPE_UUID;
  key_append(b, &v, false);
}

static void append_doc(struct buf *b, const bson_t *doc) {
  bson_value_t v = value_doc(doc);
  key_append(b, &v, false);
}

// Walks the index entries in [low, high); high NULL: all that begin with `low`. from NULL: they begin at low itself.
static struct walk walk_begin(struct config_server *cs, struct arena *a, const char *const *fields,
                              const struct buf *prefix, const struct key *from, const struct key *to, bool backward) {
  struct walk w = {.arena = a};
  struct collection *c = store_collection(cs->node.store, "config.chunks");
  const struct index *i = c ? index_by_fields(c, fields) : NULL;
  if (!i || !i->ready) return w;
  struct key whole = key_copy(a, prefix);
  struct key_range *range = arena_alloc(a, sizeof *range);
  *range = (struct key_range){.low = from ? *from : whole, .high = to ? *to : key_prefix_end(a, whole)};
  struct scan_spec spec = {.index = i, .ranges = range, .n_ranges = 1, .backward = backward, .by_order = true};
  w.scan = scan_open(a, c, &spec);
  return w;
}

static bool walk_next(struct walk *w, struct chunk_type *out) {
  struct scan_row row;
  struct error err = {0};
  while (w->scan && scan_next(w->scan, &row, &err)) {
    const bson_t *doc = scan_document(w->scan, &row);
    if (doc && w->shard && strcmp(doc_str(doc, "shard", ""), w->shard) != 0) continue;
    if (doc && chunk_type_parse(w->arena, doc_copy(w->arena, doc), out, &err)) return true;
  }
  return false;
}

static void walk_end(struct walk *w) {
  if (w->scan) scan_close(w->scan);
}

static bool walk_one(struct walk w, struct chunk_type *out) {
  bool found = walk_next(&w, out);
  walk_end(&w);
  return found;
}

// --- the lookups ---

bool chunk_newest(struct config_server *cs, struct arena *a, const uint8_t uuid[16], struct chunk_type *out) {
  __attribute__((cleanup(buf_cleanup))) struct buf b = {0};
  append_uuid(&b, uuid);
  return walk_one(walk_begin(cs, a, by_version, &b, NULL, NULL, true), out);
}

bool chunk_newest_of_shard(struct config_server *cs, struct arena *a, const uint8_t uuid[16], const char *shard,
                           struct chunk_type *out) {
  // The newest chunks are mostly on the shards that are asked about; without one chunk there all are looked at.
  struct chunk_type any;
  if (!chunk_of_shard(cs, a, uuid, shard, NULL, &any)) return false;
  __attribute__((cleanup(buf_cleanup))) struct buf b = {0};
  append_uuid(&b, uuid);
  struct walk w = walk_begin(cs, a, by_version, &b, NULL, NULL, true);
  w.shard = shard;
  return walk_one(w, out);
}

bool chunk_containing(struct config_server *cs, struct arena *a, const uint8_t uuid[16], const bson_t *key,
                      struct chunk_type *out) {
  __attribute__((cleanup(buf_cleanup))) struct buf b = {0}, end = {0};
  append_uuid(&b, uuid);
  append_uuid(&end, uuid);
  append_doc(&end, key);
  struct key high = key_prefix_end(a, key_copy(a, &end)); // entries with min <= key
  return walk_one(walk_begin(cs, a, by_min, &b, NULL, &high, true), out) && chunk_bound_compare(key, out->max) < 0;
}

bool chunk_of_shard(struct config_server *cs, struct arena *a, const uint8_t uuid[16], const char *shard,
                    const bson_oid_t *except, struct chunk_type *out) {
  struct chunk_type *list;
  size_t n = chunks_of(cs, a, uuid, shard, NULL, 2, &list);
  for (size_t i = 0; i < n; i++) {
    if (except && bson_oid_equal(&list[i].id, except)) continue;
    *out = list[i];
    return true;
  }
  return false;
}

static size_t collect(struct walk w, size_t limit, struct chunk_type **out) {
  size_t n = 0, cap = 0;
  struct chunk_type chunk, *list = NULL;
  while (n < limit && walk_next(&w, &chunk)) {
    list = arena_grow(w.arena, list, n, &cap, sizeof *list);
    list[n++] = chunk;
  }
  walk_end(&w);
  *out = list;
  return n;
}

size_t chunks_in_range(struct config_server *cs, struct arena *a, const uint8_t uuid[16], const bson_t *from,
                       const bson_t *to, size_t limit, struct chunk_type **out) {
  __attribute__((cleanup(buf_cleanup))) struct buf prefix = {0}, low = {0}, high = {0};
  append_uuid(&prefix, uuid);
  append_uuid(&low, uuid);
  append_doc(&low, from);
  append_uuid(&high, uuid);
  append_doc(&high, to);
  struct key first = key_copy(a, &low), end = key_copy(a, &high);
  return collect(walk_begin(cs, a, by_min, &prefix, &first, &end, false), limit, out);
}

size_t chunks_before(struct config_server *cs, struct arena *a, const uint8_t uuid[16], const bson_t *to, size_t limit,
                     struct chunk_type **out) {
  __attribute__((cleanup(buf_cleanup))) struct buf prefix = {0}, high = {0};
  append_uuid(&prefix, uuid);
  append_uuid(&high, uuid);
  append_doc(&high, to);
  struct key end = key_copy(a, &high);
  return collect(walk_begin(cs, a, by_min, &prefix, NULL, &end, true), limit, out);
}

size_t chunks_of(struct config_server *cs, struct arena *a, const uint8_t uuid[16], const char *shard,
                 const bson_t *from, size_t limit, struct chunk_type **out) {
  __attribute__((cleanup(buf_cleanup))) struct buf b = {0}, low = {0};
  append_uuid(&b, uuid);
  if (shard) {
    bson_value_t v = value_str(shard);
    key_append(&b, &v, false);
  }
  buf_add(&low, b.data, b.len);
  if (from) append_doc(&low, from);
  struct key first = key_copy(a, &low);
  return collect(walk_begin(cs, a, shard ? by_shard : by_min, &b, &first, NULL, false), limit, out);
}

static bool count_rows(struct operation *op, struct scan *s, const char *shard, int64_t *all, int64_t *jumbo,
                       struct error *err) {
  struct scan_row row;
  while (scan_next(s, &row, err)) {
    const bson_t *doc = scan_document(s, &row);
    if (doc && strcmp(doc_str(doc, "shard", ""), shard) == 0) {
      ++*all;
      *jumbo += doc_bool(doc, "jumbo", false);
    }
    if (!op_yield_due(op)) continue;
    scan_save(s);
    if (!op_yield(op, err)) return false;
  }
  return err->code == 0;
}

bool chunks_count(struct operation *op, struct config_server *cs, const char *shard, int64_t *all, int64_t *jumbo,
                  struct error *err) {
  struct collection *c = store_collection(cs->node.store, "config.chunks");
  struct scan_spec everything = {0};
  *all = *jumbo = 0;
  err->code = 0;
  if (!c) return true;
  struct scan *s = scan_open(op->arena, c, &everything);
  bool ok = count_rows(op, s, shard, all, jumbo, err);
  scan_close(s);
  return ok;
}

int chunk_bound_compare(const bson_t *a, const bson_t *b) {
  return doc_compare_values(a, b);
}

// --- versions ---

struct chunk_version version_of(const struct collection_type *c, uint32_t major, uint32_t minor) {
  return (struct chunk_version){.epoch = c->epoch, .timestamp = c->timestamp, .major = major, .minor = minor};
}

struct chunk_version collection_version(struct config_server *cs, struct arena *a, const struct collection_type *c) {
  struct chunk_type chunk;
  if (!chunk_newest(cs, a, c->uuid, &chunk)) return version_of(c, 0, 0);
  return version_of(c, chunk.major, chunk.minor);
}

struct chunk_version shard_version(struct config_server *cs, struct arena *a, const struct collection_type *c,
                                   const char *shard) {
  struct chunk_type chunk;
  if (!chunk_newest_of_shard(cs, a, c->uuid, shard, &chunk)) return version_of(c, 0, 0);
  return version_of(c, chunk.major, chunk.minor);
}

bool chunk_put(struct commit *c, const struct chunk_type *chunk, struct error *err) {
  return commit_put(c, "config.chunks", chunk_type_doc(c->arena, chunk), err);
}

bool chunk_bump_newest(struct commit *c, const struct collection_type *coll, struct error *err) {
  struct chunk_type chunk;
  if (!chunk_newest(c->cs, c->arena, coll->uuid, &chunk)) {
    return error_set(err, ERR_IncompatibleShardingMetadata, "Collection %s has no chunks", coll->ns);
  }
  chunk.minor++;
  return chunk_put(c, &chunk, err);
}
