// Changes to the catalog: collections, indexes, files, intervals. Memory and catalog.sqlite are changed together, and
// then the files that such a change concerns.
//
// The catalog skips what it has already, like any file. Each file of a collection decides by itself, too: the catalog
// may stand at a later entry than a file, or at an earlier one.
#include <stdlib.h>
#include <string.h>

#include "common/base/log.h"
#include "common/bson/doc.h"
#include "common/store/internal.h"

// Whether the catalog needs the entry.
static bool needed(struct store *s) {
  return store_touch(s, &s->catalog);
}

static struct collection_core *core_by_uuid(struct store *s, const uint8_t uuid[16]) {
  return map_get(s->by_uuid, uuid, 16);
}

static void field_doc(bson_t *view, const bson_t *change, const char *name) {
  if (!doc_doc(change, name, view)) bson_init(view);
}

static struct key field_key(const bson_t *change, const char *name) {
  bson_value_t v;
  if (!doc_value(change, name, &v) || v.value_type != BSON_TYPE_BINARY) return (struct key){0};
  return (struct key){.data = v.value.v_binary.data, .len = v.value.v_binary.data_len};
}

static void ignored(const struct change *c, const char *why) {
  log_error("STORAGE", "A change of the log cannot be applied and is left out", "kind:s why:s change:b", c->kind, why,
            &c->raw);
}

// --- files ---

// What a new file of the collection begins with.
static void definitions_of(const struct collection_core *c, bool own_id, bson_t *out) {
  table_definitions(out, c->uuid, own_id, c->shard_key);
  bson_t rows, row;
  BSON_APPEND_ARRAY_BEGIN(out, "x", &rows);
  uint32_t n = 0;
  for (size_t i = 0; i < c->n_indexes; i++) {
    if (c->indexes[i].id == 0 && !own_id) continue;
    char buffer[16];
    const char *name;
    bson_uint32_to_string(n++, &name, buffer, sizeof buffer);
    BSON_APPEND_DOCUMENT_BEGIN(&rows, name, &row);
    BSON_APPEND_INT64(&row, "id", c->indexes[i].id);
    BSON_APPEND_DOCUMENT(&row, "spec", c->indexes[i].spec);
    BSON_APPEND_BOOL(&row, "ready", c->indexes[i].ready);
    bson_append_document_end(&rows, &row);
  }
  bson_append_array_end(out, &rows);
}

static void need_ids(struct collection_core *c) {
  if (c->ids) return;
  c->ids_since = c->store->entry;
  catalog_put_collection(c);
  struct error err = {0};
  if (!ids_load(c, &err)) {
    log_fatal("STORAGE", "A data file cannot be opened; the process ends", "error:e", &err);
  }
}

static void new_file(struct collection_core *c, uint32_t id, enum file_state state, struct key min, struct key max) {
  struct store *s = c->store;
  bool own_id = c->internal || shard_key_determines_id(c->shard_key);
  struct store_file *f = file_new(c, id, state, s->entry);
  core_add_file(c, f);
  bson_t definitions;
  definitions_of(c, own_id, &definitions);
  catalog_put_file(f, &definitions, min, max);
  if (id >= s->next_file) {
    s->next_file = id + 1;
    catalog_put_next_file(s);
  }
  if (!own_id) need_ids(c);
  // It may be there: after a crash a file can be ahead of the catalog.
  struct error err = {0};
  if (!file_load(f, &definitions, &err)) {
    log_fatal("STORAGE", "A data file cannot be opened; the process ends", "error:e", &err);
  }
  bson_destroy(&definitions);
  core_mark_stale(c);
}

// Makes the files of a creation's entry. Not only with the catalog's own change: that can be durable without the files.
static void make_files(struct store *s, const struct change *ch) {
  struct store_file *f = file_find(s, ch->file);
  if (!f || !f->core) return;
  (void)file_touch(f);
  if (!f->table.own_id) (void)ids_touch(f->core);
}

// --- collections ---

static void add_first_indexes(struct collection_core *c, const bson_t *change) {
  bson_t *id_index = BCON_NEW("v", BCON_INT32(2), "key", "{", "_id", BCON_INT32(1), "}", "name", BCON_UTF8("_id_"));
  core_add_index(c, 0, id_index, true);
  bson_destroy(id_index);
  bson_t rows;
  bson_iter_t it;
  if (!doc_doc(change, "x", &rows) || !bson_iter_init(&it, &rows)) return;
  while (bson_iter_next(&it)) {
    bson_t row, spec;
    iter_doc(&row, &it);
    if (doc_doc(&row, "spec", &spec)) core_add_index(c, (uint32_t)doc_i64(&row, "id", 0), &spec, true);
  }
}

static void create_in_catalog(struct store *s, const struct change *ch) {
  const char *ns = doc_str(&ch->raw, "ns", "");
  if (core_by_uuid(s, ch->uuid)) return;
  if (map_gets(s->by_ns, ns)) {
    ignored(ch, "there is another collection of this name");
    return;
  }
  bson_t options, shard_key;
  field_doc(&options, &ch->raw, "o");
  field_doc(&shard_key, &ch->raw, "sk");
  struct collection_core *c = core_new(s, ch->uuid, ns, &options, &shard_key);
  core_mark_stale(c);
  if (ch->file) add_first_indexes(c, &ch->raw); // a view has neither files nor indexes
  catalog_put_collection(c);
  for (size_t i = 0; i < c->n_indexes; i++) catalog_put_index(c, &c->indexes[i]);
  if (!ch->file) return;
  new_file(c, ch->file, FILE_ACTIVE, (struct key){0}, (struct key){0});
  intervals_init(&c->intervals, ch->file);
  catalog_put_intervals(c);
}

static void create(struct store *s, const struct change *ch) {
  if (needed(s)) create_in_catalog(s, ch);
  make_files(s, ch);
}

static void drop_core(struct collection_core *c) {
  struct store *s = c->store;
  catalog_remove_collection(c);
  core_set_dropped(c);
  bool directory = !c->internal && c->n_files;
  while (c->n_files) {
    struct store_file *f = c->files[c->n_files - 1];
    core_remove_file(c, f);
    file_forget(f, true);
  }
  ids_forget(c);
  if (directory) removal_add(s, NULL, NULL, file_path(s, c->uuid, ""));
  core_free(c);
}

static void drop(struct store *s, const struct change *ch) {
  if (!needed(s)) return;
  struct collection_core *c = core_by_uuid(s, ch->uuid);
  if (c) drop_core(c);
}

static void rename_collection(struct store *s, const struct change *ch) {
  if (!needed(s)) return;
  struct collection_core *c = core_by_uuid(s, ch->uuid);
  const char *ns = doc_str(&ch->raw, "ns", "");
  uint8_t target[16];
  if (doc_uuid(&ch->raw, "dropTarget", target)) {
    struct collection_core *t = core_by_uuid(s, target);
    if (t && t != c) drop_core(t);
  }
  if (!c) return;
  struct collection_core *other = map_gets(s->by_ns, ns);
  if ((other && other != c) || ns_is_internal(ns) != c->internal) {
    ignored(ch, other ? "there is another collection of this name"
                      : "config, admin and local keep their collections to themselves");
    return;
  }
  (void)map_removes(s->by_ns, c->ns);
  free(c->ns);
  c->ns = strdup(ns);
  (void)map_puts(s->by_ns, ns, c);
  catalog_put_collection(c);
  core_mark_stale(c);
}

static void set_options(struct store *s, const struct change *ch) {
  struct collection_core *c = core_by_uuid(s, ch->uuid);
  if (!needed(s) || !c) return;
  bson_t options;
  field_doc(&options, &ch->raw, "o");
  bson_destroy(c->options);
  c->options = bson_copy(&options);
  catalog_put_collection(c);
  core_mark_stale(c);
}

// --- what the catalog and each file of a collection keep ---

static void each_file(struct collection_core *c, const struct change *ch,
                      void (*fn)(struct table *t, const struct change *ch)) {
  for (size_t i = 0; i < c->n_files; i++) {
    if (!file_touch(c->files[i])) continue;
    fn(&c->files[i]->table, ch);
    store_end_file(c->store, c->files[i]->table.db);
  }
}

static uint32_t index_id(const struct change *ch) {
  return (uint32_t)doc_i64(&ch->raw, "id", 0);
}

static void file_shard_key(struct table *t, const struct change *ch) {
  bson_t key;
  field_doc(&key, &ch->raw, "sk");
  table_set_shard_key(t, &key);
}

static void set_shard_key(struct store *s, const struct change *ch) {
  struct collection_core *c = core_by_uuid(s, ch->uuid);
  if (!c) return;
  if (needed(s)) {
    bson_t key;
    field_doc(&key, &ch->raw, "sk");
    bson_destroy(c->shard_key);
    c->shard_key = bson_copy(&key);
    catalog_put_collection(c);
    struct store_file *lowest = core_lowest_active(c);
    if (bson_empty(&key) && lowest) { // without a key there is one place for new documents
      intervals_init(&c->intervals, lowest->table.file);
      catalog_put_intervals(c);
    }
    core_mark_stale(c);
  }
  each_file(c, ch, file_shard_key);
}

static void file_add_index(struct table *t, const struct change *ch) {
  bson_t spec;
  field_doc(&spec, &ch->raw, "x");
  table_add_index(t, index_id(ch), &spec);
}

static void add_index(struct store *s, const struct change *ch) {
  struct collection_core *c = core_by_uuid(s, ch->uuid);
  if (!c) return;
  if (needed(s) && !core_index(c, index_id(ch))) {
    bson_t spec;
    field_doc(&spec, &ch->raw, "x");
    core_add_index(c, index_id(ch), &spec, false);
    catalog_put_index(c, core_index(c, index_id(ch)));
    catalog_put_collection(c);
    core_mark_stale(c);
  }
  each_file(c, ch, file_add_index);
}

static void file_index_ready(struct table *t, const struct change *ch) {
  table_index_ready(t, index_id(ch));
}

static void index_ready(struct store *s, const struct change *ch) {
  struct collection_core *c = core_by_uuid(s, ch->uuid);
  if (!c) return;
  struct index_definition *i = core_index(c, index_id(ch));
  if (needed(s) && i) {
    i->ready = true;
    catalog_put_index(c, i);
    core_mark_stale(c);
  }
  each_file(c, ch, file_index_ready);
}

static void file_remove_index(struct table *t, const struct change *ch) {
  table_remove_index(t, index_id(ch));
}

static void remove_index(struct store *s, const struct change *ch) {
  struct collection_core *c = core_by_uuid(s, ch->uuid);
  if (!c || index_id(ch) == 0) return;
  if (needed(s)) {
    core_remove_index(c, index_id(ch));
    catalog_remove_index(c, index_id(ch));
    core_mark_stale(c);
  }
  each_file(c, ch, file_remove_index);
}

// --- staged and active files ---

static void stage_in_catalog(struct collection_core *c, const struct change *ch) {
  if (c->internal || !ch->file || file_find(c->store, ch->file)) {
    ignored(ch, c->internal ? "an internal collection has one file" : "the file is there already");
    return;
  }
  new_file(c, ch->file, FILE_STAGED, field_key(&ch->raw, "min"), field_key(&ch->raw, "max"));
}

static void stage_file(struct store *s, const struct change *ch) {
  struct collection_core *c = core_by_uuid(s, ch->uuid);
  if (!c) return;
  if (needed(s)) stage_in_catalog(c, ch);
  make_files(s, ch);
}

static void adopt_file(struct store *s, const struct change *ch) {
  struct collection_core *c = core_by_uuid(s, ch->uuid);
  if (!needed(s) || !c) return;
  struct store_file *f = core_file(c, ch->file);
  if (!f) return;
  struct key min = field_key(&ch->raw, "min"), max = field_key(&ch->raw, "max");
  shard_key_normalize_range(c->shard_key, &min, &max);
  f->state = FILE_ACTIVE;
  catalog_set_file_active(f);
  intervals_set(&c->intervals, min, max, ch->file);
  catalog_put_intervals(c);
  core_mark_stale(c);
}

static void unfile(struct store *s, const struct change *ch) {
  struct collection_core *c = core_by_uuid(s, ch->uuid);
  if (!needed(s) || !c) return;
  struct store_file *f = core_file(c, ch->file);
  if (!f) return;
  bool active = f->state == FILE_ACTIVE;
  core_remove_file(c, f);
  struct store_file *heir = core_lowest_active(c);
  if (active && !heir) {
    core_add_file(c, f);
    ignored(ch, "it is the collection's only active file");
    return;
  }
  if (heir) intervals_replace(&c->intervals, f->table.file, heir->table.file);
  catalog_remove_file(f);
  if (c->ids && !f->table.own_id) catalog_add_stale_ids(c, f->table.file);
  catalog_put_intervals(c);
  core_mark_stale(c);
  file_forget(f, false);
}

// What a merge forgets goes on in `heir`. The intervals are the catalog's alone, as they are at this entry.
static void forget_merged(struct collection_core *c, uint32_t file, struct store_file *heir) {
  struct store_file *f = core_file(c, file);
  if (!f || f == heir) return;
  core_remove_file(c, f);
  intervals_replace(&c->intervals, file, heir->table.file);
  catalog_remove_file(f);
  if (c->ids && !f->table.own_id) catalog_add_stale_ids(c, file);
  file_merged(f, heir);
}

static void merge_files(struct store *s, const struct change *ch) {
  struct collection_core *c = core_by_uuid(s, ch->uuid);
  bson_t from;
  bson_iter_t it;
  if (!needed(s) || !c) return;
  struct store_file *heir = core_file(c, ch->file);
  if (!heir || !doc_doc(&ch->raw, "from", &from) || !bson_iter_init(&it, &from)) {
    ignored(ch, "there is no such file");
    return;
  }
  heir->state = FILE_ACTIVE;
  catalog_set_file_active(heir);
  while (bson_iter_next(&it)) forget_merged(c, (uint32_t)iter_i64(&it), heir);
  catalog_put_intervals(c);
  core_mark_stale(c);
}

bool apply_catalog_change(struct store *s, const struct change *c) {
  static const struct {
    const char *kind;
    void (*apply)(struct store *s, const struct change *c);
  } kinds[] = {
      {"create", create},          {"drop", drop},        {"rename", rename_collection}, {"options", set_options},
      {"shardkey", set_shard_key}, {"index", add_index},  {"ready", index_ready},        {"unindex", remove_index},
      {"file", stage_file},        {"adopt", adopt_file}, {"merge", merge_files},        {"unfile", unfile},
  };
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
    if (strcmp(c->kind, kinds[i].kind) != 0) continue;
    kinds[i].apply(s, c);
    return true;
  }
  return false;
}
