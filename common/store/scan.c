// Scans: their sources one after the other, or merged by order.
#include "common/store/scan.h"

#include <string.h>

#include "common/bson/doc.h"
#include "common/store/source.h"

// --- making one ---

static struct key keep(struct arena *a, struct key k) {
  return (struct key){.data = arena_memdup(a, k.data ? k.data : (const uint8_t *)"", k.len), .len = k.len};
}

static void copy_ranges(struct scan *s, const struct scan_spec *spec) {
  static const struct key_range everything;
  bool all = spec->n_ranges == 0 || !spec->index;
  const struct key_range *from = all ? &everything : spec->ranges;
  s->n_ranges = all ? 1 : spec->n_ranges;
  s->ranges = arena_alloc(s->arena, s->n_ranges * sizeof *s->ranges);
  for (size_t i = 0; i < s->n_ranges; i++)
    s->ranges[i] = (struct key_range){.low = keep(s->arena, from[i].low), .high = keep(s->arena, from[i].high)};
}

static bool in_scan(const struct scan *s, const struct range_file *f) {
  return s->only_file ? f->id == s->only_file : f->state == FILE_ACTIVE;
}

// The ids file takes the place of the _id index of all files that have none.
static void add_sources(struct scan *s) {
  const struct collection *c = s->collection;
  bool by_id = s->indexed && s->index_id == 0, ids = false;
  s->sources = arena_zalloc(s->arena, (c->n_files + 1) * sizeof *s->sources);
  for (size_t i = 0; i < c->n_files; i++) {
    struct store_file *f = c->files[i]->handle;
    if (!in_scan(s, c->files[i])) continue;
    file_ref(f)->scans++;
    if (by_id && !f->table.own_id) {
      ids = true;
    } else {
      s->sources[s->n_sources++] = (struct source){.scan = s, .file = f};
    }
  }
  if (ids) s->sources[s->n_sources++] = (struct source){.scan = s};
  s->heap = arena_alloc(s->arena, (s->n_sources + 1) * sizeof(*s->heap));
}

static void close_with_arena(void *arg) {
  scan_close(arg);
}

struct scan *scan_open(struct arena *a, struct collection *c, const struct scan_spec *spec) {
  struct scan *s = arena_zalloc(a, sizeof *s);
  s->arena = a;
  s->store = c->store;
  s->collection = collection_ref(c);
  s->core = core_of(c);
  s->indexed = spec->index != NULL;
  s->index_id = spec->index ? spec->index->id : 0;
  s->backward = spec->backward;
  s->only_file = spec->only_file;
  s->doc = arena_alloc(a, sizeof *s->doc);
  copy_ranges(s, spec);
  add_sources(s);
  s->by_order = spec->by_order && s->n_sources > 1;
  arena_on_free(a, close_with_arena, s);
  return s;
}

// --- being active ---

void scan_activate(struct scan *s) {
  if (s->listed) return;
  s->listed = true;
  s->prev = NULL;
  s->next = s->store->active;
  if (s->next) s->next->prev = s;
  s->store->active = s;
}

static void deactivate(struct scan *s) {
  if (!s->listed) return;
  s->listed = false;
  if (s->next) s->next->prev = s->prev;
  if (s->prev) s->prev->next = s->next;
  if (s->store->active == s) s->store->active = s->next;
  s->next = s->prev = NULL;
}

static void release_document(struct scan *s) {
  if (!s->doc_stmt) return;
  table_cursor_back(&s->doc_file->table, CURSOR_GET, s->doc_stmt);
  s->doc_file->table.db->pins--;
  s->doc_stmt = NULL;
  s->doc_file = NULL;
}

void scan_save(struct scan *s) {
  if (!s->listed) return;
  release_document(s);
  // Of merged sources only the first one's row was given; the others' rows are still to come.
  for (size_t i = 0; i < s->n_sources; i++)
    source_save(&s->sources[i], s->by_order && s->n_heap && &s->sources[i] != s->heap[0]);
  s->heap_ready = false;
  deactivate(s);
}

void scans_save_all(struct store *s) {
  while (s->active) scan_save(s->active);
}

void scan_close(struct scan *s) {
  if (!s || s->closed) return;
  s->closed = true;
  release_document(s);
  for (size_t i = 0; i < s->n_sources; i++) source_free(&s->sources[i]);
  deactivate(s);
  const struct collection *c = s->collection;
  for (size_t i = 0; i < c->n_files; i++) {
    if (in_scan(s, c->files[i])) file_scan_ends(c->files[i]->handle);
  }
  collection_unref(s->collection);
}

// --- rows ---

static void sift_down(struct scan *s, size_t at) {
  for (;;) {
    size_t first = at, left = 2 * at + 1, right = left + 1;
    if (left < s->n_heap && source_compare(s->heap[left], s->heap[first]) < 0) first = left;
    if (right < s->n_heap && source_compare(s->heap[right], s->heap[first]) < 0) first = right;
    if (first == at) return;
    struct source *moved = s->heap[at];
    s->heap[at] = s->heap[first];
    s->heap[first] = moved;
    at = first;
  }
}

static enum step fill_heap(struct scan *s, struct error *err) {
  s->n_heap = 0;
  for (size_t i = 0; i < s->n_sources; i++) {
    enum step got = source_next(&s->sources[i], err);
    if (got == STEP_KILLED) return got;
    if (got == STEP_ROW) s->heap[s->n_heap++] = &s->sources[i];
  }
  for (size_t i = s->n_heap / 2; i-- > 0;) sift_down(s, i);
  s->heap_ready = true;
  return s->n_heap ? STEP_ROW : STEP_END;
}

static enum step next_merged(struct scan *s, struct source **from, struct error *err) {
  enum step got = STEP_ROW;
  if (!s->heap_ready) {
    got = fill_heap(s, err);
  } else if (s->n_heap) {
    got = source_next(s->heap[0], err);
    if (got == STEP_END) s->heap[0] = s->heap[--s->n_heap];
    if (got != STEP_KILLED) sift_down(s, 0);
  }
  if (got == STEP_KILLED) return got;
  if (!s->n_heap) return STEP_END;
  *from = s->heap[0];
  return STEP_ROW;
}

static enum step next_in_turn(struct scan *s, struct source **from, struct error *err) {
  for (; s->at < s->n_sources; s->at++) {
    enum step got = source_next(&s->sources[s->at], err);
    *from = &s->sources[s->at];
    if (got != STEP_END) return got;
  }
  return STEP_END;
}

bool scan_next(struct scan *s, struct scan_row *row, struct error *err) {
  if (err) *err = (struct error){0};
  if (s->collection->dropped)
    return error_set(err, ERR_QueryPlanKilled, "collection dropped: %s was dropped while it was read",
                     s->collection->ns);
  struct source *from = NULL;
  enum step got = s->by_order ? next_merged(s, &from, err) : next_in_turn(s, &from, err);
  if (got != STEP_ROW) {
    if (got == STEP_END) scan_save(s);
    return false;
  }
  *row = (struct scan_row){.file = from->file_id, .rid = from->rid, .key = from->key};
  return true;
}

// --- documents ---

struct store_file *scan_file(const struct scan *s, uint32_t id) {
  const struct collection *c = s->collection;
  struct range_file *f = collection_file(c, id);
  if (f && in_scan(s, f) && !f->handle->heir) return f->handle;
  for (size_t i = 0; i < c->n_files; i++) {
    if (!in_scan(s, c->files[i]) || !c->files[i]->handle->heir) continue;
    struct store_file *now = file_now(c->files[i]->handle);
    if (now->table.file == id) return now;
  }
  return NULL;
}

bool scan_fetch(struct scan *s, struct store_file *f, int64_t rid) {
  if (s->doc_stmt && s->doc_file == f) {
    if (s->doc_rid == rid) return true;
    sqlite3_reset(s->doc_stmt);
  } else {
    release_document(s);
    if (!file_read(f)) return false;
    s->doc_stmt = table_cursor(&f->table, CURSOR_GET);
    s->doc_file = f;
    f->table.db->pins++;
    scan_activate(s);
  }
  s->doc_rid = rid;
  sqlite3_bind_int64(s->doc_stmt, 1, rid);
  if (db_step(f->table.db, s->doc_stmt)) return true;
  release_document(s);
  return false;
}

const bson_t *scan_document(struct scan *s, const struct scan_row *row) {
  const struct source *from = NULL; // of the row, if nothing has happened since
  if (s->by_order) {
    if (s->n_heap) from = s->heap[0];
  } else if (s->at < s->n_sources) {
    from = &s->sources[s->at];
  }
  struct key bytes;
  if (from && !s->indexed && from->stmt && from->rid == row->rid && !from->file->heir && from->file_id == row->file) {
    bytes = column_key(from->stmt, 1); // the very row the source stands on
  } else {
    struct store_file *f = scan_file(s, row->file);
    if (!f || !scan_fetch(s, f, row->rid)) return NULL;
    bytes = column_key(s->doc_stmt, 1);
  }
  doc_view(s->doc, bytes.data, bytes.len);
  return s->doc;
}

int64_t scan_keys_examined(const struct scan *s) {
  return s->keys;
}

int64_t scan_seeks(const struct scan *s) {
  return s->seeks;
}
