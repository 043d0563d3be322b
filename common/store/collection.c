// Collections in memory: a core for each, which applying changes, and the immutable generations that readers hold.
#include <stdlib.h>
#include <string.h>

#include "common/bson/compare.h"
#include "common/bson/doc.h"
#include "common/bson/path.h"
#include "common/store/internal.h"

struct collection_core *core_of(const struct collection *c) {
  return ((const struct generation *)(const void *)c)->core;
}

bool ns_is_internal(const char *ns) {
  size_t n = strcspn(ns, ".");
  return (n == 6 && memcmp(ns, "config", 6) == 0) ||
         (n == 5 && (memcmp(ns, "admin", 5) == 0 || memcmp(ns, "local", 5) == 0));
}

// --- the core ---

struct collection_core *core_new(struct store *s, const uint8_t uuid[16], const char *ns, const bson_t *options,
                                 const bson_t *shard_key) {
  struct collection_core *c = calloc(1, sizeof *c);
  if (!c) abort();
  c->store = s;
  memcpy(c->uuid, uuid, 16);
  c->ns = strdup(ns);
  c->options = bson_copy(options);
  c->shard_key = bson_copy(shard_key);
  c->internal = ns_is_internal(ns);
  c->next_index = 1;
  c->refs = 1;
  (void)map_put(s->by_uuid, uuid, 16, c);
  (void)map_puts(s->by_ns, ns, c);
  return c;
}

void core_unref(struct collection_core *c) {
  if (--c->refs) return;
  for (size_t i = 0; i < c->n_indexes; i++) bson_destroy(c->indexes[i].spec);
  free(c->indexes);
  free(c->files);
  intervals_free(&c->intervals);
  bson_destroy(c->options);
  bson_destroy(c->shard_key);
  arena_free(c->slice_arena);
  free(c->ns);
  free(c);
}

void core_set_dropped(struct collection_core *c) {
  for (struct generation *g = c->generations; g; g = g->next) g->shown.dropped = true;
}

void core_free(struct collection_core *c) {
  if (c->stale) { // it is on the entry's list
    struct collection_core **at = &c->store->stale;
    while (*at != c) at = &(*at)->next_stale;
    *at = c->next_stale;
  }
  (void)map_remove(c->store->by_uuid, c->uuid, 16);
  if (map_gets(c->store->by_ns, c->ns) == c) (void)map_removes(c->store->by_ns, c->ns);
  if (c->newest) {
    struct collection *newest = &c->newest->shown;
    c->newest = NULL;
    collection_unref(newest);
  }
  core_unref(c);
}

struct index_definition *core_index(const struct collection_core *c, uint32_t id) {
  for (size_t i = 0; i < c->n_indexes; i++) {
    if (c->indexes[i].id == id) return &c->indexes[i];
  }
  return NULL;
}

void core_add_index(struct collection_core *c, uint32_t id, const bson_t *spec, bool ready) {
  struct index_definition *grown = realloc(c->indexes, (c->n_indexes + 1) * sizeof *grown);
  if (!grown) abort();
  c->indexes = grown;
  size_t at = c->n_indexes;
  while (at > 0 && grown[at - 1].id > id) at--;
  memmove(grown + at + 1, grown + at, (c->n_indexes - at) * sizeof *grown);
  grown[at] = (struct index_definition){.id = id, .spec = bson_copy(spec), .ready = ready};
  c->n_indexes++;
  if (id >= c->next_index) c->next_index = id + 1;
}

void core_remove_index(struct collection_core *c, uint32_t id) {
  struct index_definition *i = core_index(c, id);
  if (!i) return;
  bson_destroy(i->spec);
  size_t at = (size_t)(i - c->indexes);
  memmove(i, i + 1, (c->n_indexes - at - 1) * sizeof *i);
  c->n_indexes--;
}

void core_add_file(struct collection_core *c, struct store_file *f) {
  struct store_file **grown = realloc(c->files, (c->n_files + 1) * sizeof(*grown));
  if (!grown) abort();
  c->files = grown;
  size_t at = c->n_files;
  while (at > 0 && grown[at - 1]->table.file > f->table.file) at--;
  memmove(grown + at + 1, grown + at, (c->n_files - at) * sizeof(*grown));
  grown[at] = f;
  c->n_files++;
}

void core_remove_file(struct collection_core *c, struct store_file *f) {
  for (size_t at = 0; at < c->n_files; at++) {
    if (c->files[at] != f) continue;
    memmove(c->files + at, c->files + at + 1, (c->n_files - at - 1) * sizeof(*c->files));
    c->n_files--;
    return;
  }
}

struct store_file *core_file(const struct collection_core *c, uint32_t id) {
  for (size_t i = 0; i < c->n_files; i++) {
    if (c->files[i]->table.file == id) return c->files[i];
  }
  return NULL;
}

struct store_file *core_lowest_active(const struct collection_core *c) {
  for (size_t i = 0; i < c->n_files; i++) {
    if (c->files[i]->state == FILE_ACTIVE) return c->files[i];
  }
  return NULL;
}

// --- generations ---

static bool is_multikey(const struct collection_core *c, uint32_t id) {
  for (size_t i = 0; i < c->n_files; i++) {
    const struct table_index *t = table_index(&c->files[i]->table, id);
    if (t && t->multikey) return true;
  }
  return false;
}

static const bson_t *view_of(struct arena *a, const bson_t *doc, const char *name) {
  bson_t *view = arena_alloc(a, sizeof *view);
  return doc_doc(doc, name, view) ? view : NULL;
}

static struct index *show_index(const struct collection_core *c, const struct index_definition *d, struct arena *a) {
  struct index *i = arena_zalloc(a, sizeof *i);
  i->id = d->id;
  i->spec = arena_bson_copy(a, bson_get_data(d->spec), d->spec->len);
  i->key = view_of(a, i->spec, "key");
  if (!i->key) i->key = arena_bson(a);
  i->name = doc_str(i->spec, "name", "");
  i->unique = d->id == 0 || doc_bool(i->spec, "unique", false);
  i->sparse = doc_bool(i->spec, "sparse", false);
  i->hidden = doc_bool(i->spec, "hidden", false);
  i->partial_filter = view_of(a, i->spec, "partialFilterExpression");
  i->multikey = is_multikey(c, d->id);
  i->ready = d->ready;
  i->in_ids_file = d->id == 0 && c->ids;
  return i;
}

static void show_files(struct collection_core *c, struct collection *shown, struct arena *a) {
  shown->n_files = c->n_files;
  shown->files = arena_alloc(a, c->n_files * sizeof(*shown->files));
  for (size_t i = 0; i < c->n_files; i++) {
    struct store_file *f = c->files[i];
    struct range_file *r = arena_zalloc(a, sizeof *r);
    *r = (struct range_file){.id = f->table.file, .state = f->state, .collection = shown, .handle = file_ref(f)};
    f->shown = shown->files[i] = r;
    core_show_counters(f);
  }
}

void core_show_counters(struct store_file *f) {
  if (!f->shown) return;
  f->shown->count = f->table.count;
  f->shown->bytes = f->table.bytes;
}

static void show_intervals(const struct collection_core *c, struct collection *shown, struct arena *a) {
  shown->n_intervals = c->intervals.n;
  shown->intervals = arena_alloc(a, c->intervals.n * sizeof *shown->intervals);
  for (size_t i = 0; i < c->intervals.n; i++) {
    const struct owned_interval *o = &c->intervals.list[i];
    shown->intervals[i].min = (struct key){.data = arena_memdup(a, o->min, o->min_len), .len = o->min_len};
    shown->intervals[i].file = o->file;
  }
}

void core_show(struct collection_core *c) {
  struct arena *a = arena_new();
  struct generation *g = arena_zalloc(a, sizeof *g);
  *g = (struct generation){.arena = a, .core = c, .refs = 1, .next = c->generations};
  struct collection *shown = &g->shown;
  memcpy(shown->uuid, c->uuid, 16);
  shown->ns = arena_strdup(a, c->ns);
  size_t db = strcspn(c->ns, ".");
  shown->db = arena_strndup(a, c->ns, db);
  shown->name = shown->ns + db + (c->ns[db] == '.');
  shown->options = arena_bson_copy(a, bson_get_data(c->options), c->options->len);
  shown->shard_key = arena_bson_copy(a, bson_get_data(c->shard_key), c->shard_key->len);
  shown->internal = c->internal;
  shown->generation = ++c->store->generation;
  shown->n_indexes = c->n_indexes;
  shown->indexes = arena_alloc(a, c->n_indexes * sizeof(*shown->indexes));
  for (size_t i = 0; i < c->n_indexes; i++) shown->indexes[i] = show_index(c, &c->indexes[i], a);
  show_files(c, shown, a);
  show_intervals(c, shown, a);
  shown->store = c->store;
  if (c->generations) c->generations->prev = g;
  c->generations = g;
  c->refs++;
  struct generation *before = c->newest;
  c->newest = g;
  if (before) collection_unref(&before->shown);
}

struct collection *collection_ref(struct collection *c) {
  ((struct generation *)(void *)c)->refs++;
  return c;
}

void collection_unref(struct collection *c) {
  struct generation *g = (struct generation *)(void *)c;
  if (--g->refs) return;
  struct collection_core *core = g->core;
  if (g->next) g->next->prev = g->prev;
  if (g->prev) g->prev->next = g->next;
  if (core->generations == g) core->generations = g->next;
  for (size_t i = 0; i < c->n_files; i++) file_unref(c->files[i]->handle);
  arena_free(g->arena);
  core_unref(core);
}

// --- finding them ---

struct collection *store_collection(struct store *s, const char *ns) {
  struct collection_core *c = map_gets(s->by_ns, ns);
  return c ? &c->newest->shown : NULL;
}

struct collection *store_collection_by_uuid(struct store *s, const uint8_t uuid[16]) {
  struct collection_core *c = map_get(s->by_uuid, uuid, 16);
  return c ? &c->newest->shown : NULL;
}

struct collected {
  struct collection **list;
  size_t n;
};

static bool collect(void *ctx, const void *key, size_t len, void *value) {
  struct collected *all = ctx;
  struct collection_core *c = value;
  all->list[all->n++] = collection_ref(&c->newest->shown);
  return true;
}

static int by_ns(const void *a, const void *b) {
  return strcmp((*(struct collection *const *)a)->ns, (*(struct collection *const *)b)->ns);
}

void store_each_collection(struct store *s, bool (*fn)(void *ctx, struct collection *c), void *ctx) {
  struct collected all = {.list = calloc(map_count(s->by_ns) + 1, sizeof(*all.list))};
  if (!all.list) abort();
  map_each(s->by_ns, collect, &all);
  qsort(all.list, all.n, sizeof(*all.list), by_ns);
  bool more = true;
  for (size_t i = 0; i < all.n; i++) {
    more = more && fn(ctx, all.list[i]);
    collection_unref(all.list[i]);
  }
  free(all.list);
}

const struct index *collection_index(const struct collection *c, const char *name) {
  for (size_t i = 0; i < c->n_indexes; i++) {
    if (strcmp(c->indexes[i]->name, name) == 0) return c->indexes[i];
  }
  return NULL;
}

const struct index *collection_index_by_key(const struct collection *c, const bson_t *key) {
  for (size_t i = 0; i < c->n_indexes; i++) {
    if (doc_compare(c->indexes[i]->key, key) == 0) return c->indexes[i];
  }
  return NULL;
}

struct range_file *collection_file(const struct collection *c, uint32_t id) {
  for (size_t i = 0; i < c->n_files; i++) {
    if (c->files[i]->id == id) return c->files[i];
  }
  return NULL;
}

uint32_t collection_file_now(const struct collection *c, uint32_t id) {
  for (size_t i = 0; i < c->n_files; i++) {
    struct store_file *now = file_now(c->files[i]->handle);
    for (struct store_file *f = c->files[i]->handle; f != now; f = f->heir)
      if (f->table.file == id) return now->table.file;
  }
  return id;
}

bool collection_file_whole(const struct collection *c, uint32_t id) {
  const struct range_file *f = collection_file(c, id);
  if (!f) return false;
  const struct table *t = &f->handle->table;
  for (size_t i = 0; i < t->n_indexes; i++)
    if (t->indexes[i]->conflict) return false;
  return true;
}

struct range_file *collection_file_for(const struct collection *c, struct key shard_key) {
  if (!c->n_intervals) return NULL;
  size_t low = 0, high = c->n_intervals;
  while (high - low > 1) {
    size_t middle = low + (high - low) / 2;
    if (key_compare(c->intervals[middle].min, shard_key) <= 0) {
      low = middle;
    } else {
      high = middle;
    }
  }
  return collection_file(c, c->intervals[low].file);
}

bool collection_shard_key_of(const struct collection *c, struct arena *a, const bson_t *doc, struct key *out,
                             struct error *err) {
  return path_encode_key(a, doc, c->shard_key, out, err);
}
