// Finding single documents: by _id, by place, by a unique key.
#include <string.h>

#include "common/bson/doc.h"
#include "common/bson/hash.h"
#include "common/store/internal.h"

static bool fetch(struct store_file *f, struct arena *a, int64_t rid, const bson_t **doc) {
  if (!file_read(f)) return false;
  sqlite3_stmt *held;
  struct key bytes;
  if (!table_get(&f->table, rid, &held, &bytes)) return false;
  if (doc) *doc = arena_bson_copy(a, bytes.data, bytes.len);
  table_cursor_back(&f->table, CURSOR_GET, held);
  return true;
}

static bool find_in(struct store_file *f, uint32_t index_id, struct key key, uint32_t *file, int64_t *rid) {
  struct table_index *i = table_index(&f->table, index_id);
  if (!i || !file_read(f)) return false;
  // New _ids are mostly above all others.
  if (index_id == 0 && !index_may_have(&f->table, i, key)) return false;
  if (!index_get(&f->table, i, key, rid)) return false;
  *file = f->table.file;
  return true;
}

// Through the ids file: the first row that is true.
static bool find_in_ids(struct collection_core *c, struct key key, uint32_t *file, int64_t *rid) {
  if (!ids_read(c) || !ids_may_have(c->ids, key)) return false;
  sqlite3_stmt *s = ids_cursor(c->ids, IDS_FIND);
  bind_key(s, 1, key);
  c->ids->db.pins++;
  bool found = false;
  while (!found && db_step(&c->ids->db, s)) {
    struct store_file *f = file_find(c->store, (uint32_t)sqlite3_column_int64(s, 1));
    *rid = sqlite3_column_int64(s, 2);
    if (!f || f->core != c || f->state != FILE_ACTIVE || !fetch(f, NULL, *rid, NULL)) continue;
    *file = f->table.file;
    found = true;
  }
  ids_cursor_back(c->ids, IDS_FIND, s);
  c->ids->db.pins--;
  return found;
}

// The only file in which a document with this _id can be, where there is only one; else NULL.
static struct store_file *file_of_id(const struct collection_core *c, const bson_value_t *id, struct key key) {
  if (c->n_files == 1) return c->files[0];
  bson_iter_t it;
  if (bson_empty(c->shard_key) || !shard_key_determines_id(c->shard_key)) return NULL;
  if (!bson_iter_init_find(&it, c->shard_key, "_id") || !BSON_ITER_HOLDS_UTF8(&it))
    return core_file(c, intervals_find(&c->intervals, key));
  bson_value_t hash = value_int64(bson_hash64(id, 0));
  __attribute__((cleanup(buf_cleanup))) struct buf encoded = {0};
  key_append(&encoded, &hash, false);
  return core_file(c, intervals_find(&c->intervals, (struct key){encoded.data, encoded.len}));
}

static bool find_id_key(struct collection_core *c, const bson_value_t *id, struct key key, uint32_t *file,
                        int64_t *rid) {
  struct store_file *only = id ? file_of_id(c, id, key) : NULL;
  if (only && only->table.own_id && only->state == FILE_ACTIVE) return find_in(only, 0, key, file, rid);
  for (size_t i = 0; i < c->n_files; i++) {
    struct store_file *f = c->files[i];
    if (f->state == FILE_ACTIVE && f->table.own_id && find_in(f, 0, key, file, rid)) return true;
  }
  return find_in_ids(c, key, file, rid);
}

bool store_find_id(struct collection *c, struct arena *a, const bson_value_t *id, uint32_t *file, int64_t *rid,
                   const bson_t **doc) {
  __attribute__((cleanup(buf_cleanup))) struct buf encoded = {0};
  key_append(&encoded, id, false);
  struct collection_core *core = core_of(c);
  uint32_t in;
  int64_t at;
  if (!find_id_key(core, id, (struct key){encoded.data, encoded.len}, &in, &at)) return false;
  if (file) *file = in;
  if (rid) *rid = at;
  if (!doc) return true;
  struct store_file *f = core_file(core, in);
  return f && fetch(f, a, at, doc);
}

bool store_find_rid(struct collection *c, struct arena *a, uint32_t file, int64_t rid, const bson_t **doc) {
  struct store_file *f = core_file(core_of(c), file);
  return f && fetch(f, a, rid, doc);
}

// A unique index of a sharded collection begins with the shard key, so that a key's interval says which file it is in.
static bool begins_with_shard_key(const struct collection_core *c, const bson_t *pattern) {
  bson_iter_t p, k;
  if (bson_empty(c->shard_key) || !bson_iter_init(&p, pattern) || !bson_iter_init(&k, c->shard_key)) return false;
  while (bson_iter_next(&k)) {
    if (BSON_ITER_HOLDS_UTF8(&k) || !bson_iter_next(&p) || strcmp(bson_iter_key(&p), bson_iter_key(&k)) != 0 ||
        !iter_is_number(&p) || iter_i64(&p) < 0)
      return false;
  }
  return true;
}

bool store_find_unique(struct collection *c, const struct index *i, struct key key, uint32_t *file, int64_t *rid) {
  struct collection_core *core = core_of(c);
  if (i->id == 0) return find_id_key(core, NULL, key, file, rid);
  if (begins_with_shard_key(core, i->key)) {
    struct store_file *f = core_file(core, intervals_find(&core->intervals, key));
    return f && find_in(f, i->id, key, file, rid);
  }
  for (size_t n = 0; n < core->n_files; n++) {
    struct store_file *f = core->files[n];
    if (f->state == FILE_ACTIVE && find_in(f, i->id, key, file, rid)) return true;
  }
  return false;
}
