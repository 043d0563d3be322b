// The changed `_id`s of a moving range, from the stream of applied entries.
#include "shardd/migration_capture.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/map.h"
#include "common/bson/doc.h"
#include "shardd/rid_set.h"

enum { RECORD_OVERHEAD = 96 }; // of the map and the allocator, for the memory limit

struct capture {
  struct store *store;
  uint8_t collection[16];
  struct key min, max; // in `keys`
  struct arena *keys, *scratch;
  struct rid_set known; // documents that the recipient has, or will be told of
  struct map *changed;  // encoded _id -> bson_t {_id}
  size_t id_bytes, memory;
  const char *catalog_change; // what happened to the collection, NULL = nothing
};

struct capture *capture_new(struct store *s, const uint8_t collection[16], struct key min, struct key max) {
  struct capture *c = calloc(1, sizeof *c);
  c->store = s;
  memcpy(c->collection, collection, 16);
  c->keys = arena_new();
  c->scratch = arena_new();
  c->min = (struct key){.data = arena_memdup(c->keys, min.data, min.len), .len = min.len};
  c->max = (struct key){.data = arena_memdup(c->keys, max.data, max.len), .len = max.len};
  c->changed = map_new();
  return c;
}

static void free_id(void *p) {
  bson_destroy(p);
}

void capture_free(struct capture *c) {
  if (!c) return;
  map_free(c->changed, free_id);
  rid_set_free(&c->known);
  arena_free(c->keys);
  arena_free(c->scratch);
  free(c);
}

static void record(struct capture *c, const bson_value_t *id) {
  struct buf key __attribute__((cleanup(buf_cleanup))) = {0};
  key_append(&key, id, false);
  if (map_get(c->changed, key.data, key.len)) return;
  bson_t *doc = bson_new();
  doc_append_value(doc, "_id", id);
  map_put(c->changed, key.data, key.len, doc);
  c->id_bytes += doc->len;
  c->memory += doc->len + key.len + RECORD_OVERHEAD;
}

static bool in_range(struct capture *c, const struct change *ch) {
  const struct collection *coll = store_collection_by_uuid(c->store, c->collection);
  struct key key;
  struct error err = {0};
  if (!coll || !collection_shard_key_of(coll, c->scratch, &ch->doc, &key, &err)) return false;
  bool in = key_compare(c->min, key) <= 0 && key_compare(key, c->max) < 0;
  arena_reset(c->scratch);
  return in;
}

static bool is(const struct change *ch, const char *kind) {
  return !strcmp(ch->kind, kind);
}

static bool capture_change(void *ctx, const struct change *ch) {
  struct capture *c = ctx;
  if (memcmp(ch->uuid, c->collection, 16)) return true;
  if (is(ch, "p")) {
    if (in_range(c, ch)) {
      rid_set_add(&c->known, ch->rid);
      record(c, &ch->id);
    } else if (rid_set_has(&c->known, ch->rid)) {
      record(c, &ch->id); // it left the range: sent as deleted
    }
  } else if (is(ch, "d")) {
    if (rid_set_has(&c->known, ch->rid)) record(c, &ch->id);
  } else if (is(ch, "drop") || is(ch, "rename") || is(ch, "options") || is(ch, "shardkey") || is(ch, "index") ||
             is(ch, "unindex")) {
    c->catalog_change = "the collection's indexes or options were changed";
  }
  return true;
}

void capture_entry(struct capture *c, const bson_t *entry) {
  if (c->memory <= CAPTURE_MAX_BYTES) changes_each(entry, capture_change, c);
}

void capture_sent(struct capture *c, int64_t rid) {
  rid_set_add(&c->known, rid);
}

struct first {
  struct capture *c;
  struct arena *a;
  bson_value_t *id;
  bool found;
};

static bool take_first(void *ctx, const void *key, size_t len, void *value) {
  struct first *f = ctx;
  bson_t *doc = value;
  bson_value_t id;
  doc_value(doc, "_id", &id);
  *f->id = value_copy(f->a, &id);
  f->c->id_bytes -= doc->len;
  f->c->memory -= doc->len + len + RECORD_OVERHEAD;
  f->found = true;
  map_remove(f->c->changed, key, len);
  bson_destroy(doc);
  return false;
}

bool capture_take(struct capture *c, struct arena *a, bson_value_t *id) {
  struct first f = {.c = c, .a = a, .id = id};
  map_each(c->changed, take_first, &f);
  return f.found;
}

size_t capture_count(const struct capture *c) {
  return map_count(c->changed);
}

size_t capture_bytes(const struct capture *c) {
  return c->id_bytes;
}

bool capture_ok(const struct capture *c, struct error *err) {
  if (c->catalog_change) return error_set(err, ERR_Interrupted, "Migration aborted because %s", c->catalog_change);
  if (c->memory > CAPTURE_MAX_BYTES)
    return error_set(err, ERR_ExceededMemoryLimit,
                     "Aborting migration because more than %d MiB of changes were recorded for the range being moved",
                     CAPTURE_MAX_BYTES >> 20);
  return true;
}

bool capture_saw_catalog_change(const struct capture *c) {
  return c->catalog_change != NULL;
}
