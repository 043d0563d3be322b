// Applying entries of the log.
//
// Each database an entry concerns decides by its own applied index whether it has the entry already (store_touch), is
// written in its open transaction, and stands at the entry when the entry is complete. It is never committed in
// between.
#include <string.h>

#include "common/base/log.h"
#include "common/bson/doc.h"
#include "common/store/internal.h"

bool store_touch(struct store *s, struct db *d) {
  if (d->entry == s->entry) return true;
  if (s->entry <= d->applied) return false;
  db_write(d);
  d->entry = s->entry;
  s->touched = array_grow(s->touched, &s->touched_cap, s->n_touched + 1, sizeof(*s->touched));
  s->touched[s->n_touched++] = d;
  return true;
}

static void complete(struct db *d) {
  if (!d->entry) return;
  d->applied = d->entry;
  d->entry = 0;
  if (d->dirty_bytes >= d->limits->commit_dirty) db_commit(d);
}

void store_end_file(struct store *s, struct db *d) {
  if (!s->last_change || d == &s->internal) return;
  complete(d);
  store_trim_open(s);
}

void core_mark_stale(struct collection_core *c) {
  if (c->stale) return;
  c->stale = true;
  c->next_stale = c->store->stale;
  c->store->stale = c;
}

static void end_entry(struct store *s) {
  for (size_t i = 0; i < s->n_touched; i++) complete(s->touched[i]);
  s->n_touched = 0;
  while (s->stale) {
    struct collection_core *c = s->stale;
    s->stale = c->next_stale;
    c->stale = false;
    core_show(c);
  }
  s->applied = s->entry;
  s->entry = 0;
  if (s->n_open > s->max_open) store_trim_open(s);
}

// --- documents ---

static struct key id_key(struct arena *a, const bson_value_t *id) {
  __attribute__((cleanup(buf_cleanup))) struct buf encoded = {0};
  key_append(&encoded, id, false);
  return key_copy(a, &encoded);
}

// A reader that holds the collection has to learn of the first array in an index.
static bool any_multikey(const struct table *t) {
  for (size_t i = 0; i < t->n_indexes; i++) {
    if (t->indexes[i]->multikey && !t->indexes[i]->multikey_shown) return true;
  }
  return false;
}

static void show_changes(struct store_file *f) {
  core_show_counters(f);
  if (!any_multikey(&f->table)) return;
  for (size_t i = 0; i < f->table.n_indexes; i++) f->table.indexes[i]->multikey_shown = f->table.indexes[i]->multikey;
  core_mark_stale(f->core);
}

static void apply_put(struct store *s, const struct change *c) {
  struct store_file *f = file_find(s, c->file);
  if (!f) return;
  bool was_there = false;
  if (file_touch(f)) {
    was_there = table_put(&f->table, s->arena, c->rid, &c->doc);
    show_changes(f);
  }
  // A document that was there has its row: the ids file has had the entry that put it, too.
  if (!f->table.own_id && !was_there && ids_touch(f->core))
    ids_put(f->core->ids, id_key(s->arena, &c->id), c->file, c->rid);
}

static void apply_delete(struct store *s, const struct change *c) {
  struct store_file *f = file_find(s, c->file);
  if (!f) return;
  if (file_touch(f)) {
    (void)table_remove(&f->table, s->arena, c->rid, NULL, NULL);
    core_show_counters(f);
  }
  if (!f->table.own_id && ids_touch(f->core)) ids_erase(f->core->ids, id_key(s->arena, &c->id), c->file, c->rid);
}

// --- slices ---

static void keep_slice(struct collection_core *c, const struct slice_result *r) {
  if (c->slice_arena) {
    arena_reset(c->slice_arena);
  } else {
    c->slice_arena = arena_new();
  }
  c->slice = *r;
  c->slice.duplicate_id = value_copy(c->slice_arena, &r->duplicate_id);
  c->has_slice = true;
}

static void apply_build(struct store *s, const struct change *c) {
  struct store_file *f = file_find(s, c->file);
  if (!f || !file_touch(f)) return;
  struct slice_result r;
  table_build(&f->table, s->arena, (uint32_t)doc_i64(&c->raw, "id", 0), doc_i64(&c->raw, "a", 0),
              doc_i64(&c->raw, "n", 0), &r);
  show_changes(f);
  keep_slice(f->core, &r);
}

static void forget_id(void *ctx, int64_t rid, const bson_t *doc) {
  struct store_file *f = ctx;
  bson_value_t id;
  if (doc_value(doc, "_id", &id)) ids_erase(f->core->ids, id_key(f->store->arena, &id), f->table.file, rid);
}

static struct key bound(const struct change *c, const char *name) {
  bson_value_t v;
  if (!doc_value(&c->raw, name, &v) || v.value_type != BSON_TYPE_BINARY) return (struct key){0};
  return (struct key){.data = v.value.v_binary.data, .len = v.value.v_binary.data_len};
}

static void apply_range(struct store *s, const struct change *c) {
  struct store_file *f = file_find(s, c->file);
  if (!f || !file_touch(f)) return;
  // The rows of the ids file go along, unless it stands elsewhere (after a crash): then they are stale, and harmless.
  bool with_ids = !f->table.own_id && ids_touch(f->core);
  struct slice_result r;
  table_delete_range(&f->table, s->arena, bound(c, "min"), bound(c, "max"), doc_i64(&c->raw, "n", 0),
                     with_ids ? forget_id : NULL, f, &r);
  core_show_counters(f);
  keep_slice(f->core, &r);
}

bool store_last_slice(const struct store *s, const uint8_t uuid[16], struct slice_result *out) {
  const struct collection_core *c = map_get(s->by_uuid, uuid, 16);
  if (!c || !c->has_slice) return false;
  *out = c->slice;
  return true;
}

// --- entries ---

static void apply_change(struct store *s, const struct change *c) {
  if (strcmp(c->kind, "p") == 0 || strcmp(c->kind, "copy") == 0) {
    apply_put(s, c);
  } else if (strcmp(c->kind, "d") == 0 || strcmp(c->kind, "uncopy") == 0) {
    apply_delete(s, c);
  } else if (strcmp(c->kind, "build") == 0) {
    apply_build(s, c);
  } else if (strcmp(c->kind, "range") == 0) {
    apply_range(s, c);
  } else if (strcmp(c->kind, "session") == 0) {
    sessions_apply(s, c);
  } else if (strcmp(c->kind, "noop") != 0 && !apply_catalog_change(s, c)) {
    log_fatal("STORAGE", "The log has a kind of change that this program does not know; the process ends",
              "kind:s advice:s", c->kind, "it was written by a newer version: start that one");
  }
}

struct application {
  struct store *store;
  const uint8_t *end; // of the entry's list
};

static bool apply_next(void *ctx, const struct change *c) {
  struct application *a = ctx;
  a->store->last_change = bson_get_data(&c->raw) + c->raw.len >= a->end;
  apply_change(a->store, c);
  arena_reset(a->store->arena);
  return true;
}

void store_apply(struct store *s, uint64_t index, const bson_t *entry) {
  if (s->active) scans_save_all(s);
  s->entry = index;
  bson_iter_t wall;
  s->entry_wall = doc_get(entry, "wall", &wall) && BSON_ITER_HOLDS_DATE_TIME(&wall) ? bson_iter_date_time(&wall) : 0;
  bson_t list;
  struct application a = {.store = s};
  if (doc_doc(entry, "c", &list)) a.end = bson_get_data(&list) + list.len - 1;
  changes_each(entry, apply_next, &a);
  end_entry(s);
}

uint64_t store_applied(const struct store *s) {
  return s->applied;
}

uint64_t store_replay_target(const struct store *s) {
  return s->replay_target;
}
