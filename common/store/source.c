// The streams of a scan.
#include "common/store/source.h"

#include <stdlib.h>
#include <string.h>

// --- rids that were given already ---

static size_t slot_of(const struct rid_set *set, int64_t rid) {
  size_t at = (size_t)((uint64_t)rid * UINT64_C(0x9E3779B97F4A7C15) >> 20) & (set->cap - 1);
  while (set->slots[at] && set->slots[at] != rid) at = (at + 1) & (set->cap - 1);
  return at;
}

static void grow(struct rid_set *set) {
  struct rid_set bigger = {.cap = set->cap ? set->cap * 2 : 64};
  bigger.slots = calloc(bigger.cap, sizeof *bigger.slots);
  if (!bigger.slots) abort();
  for (size_t i = 0; i < set->cap; i++) {
    if (set->slots[i]) bigger.slots[slot_of(&bigger, set->slots[i])] = set->slots[i];
  }
  bigger.n = set->n;
  free(set->slots);
  *set = bigger;
}

// Whether it is new.
static bool set_add(struct rid_set *set, int64_t rid) {
  if (set->n * 2 >= set->cap) grow(set);
  size_t at = slot_of(set, rid);
  if (set->slots[at]) return false;
  set->slots[at] = rid;
  set->n++;
  return true;
}

// --- statements ---

static enum cursor_kind direction(const struct source *s) {
  return s->scan->backward ? CURSOR_BACKWARD : CURSOR_FORWARD;
}

static void give_back(struct source *s) {
  if (!s->stmt) return;
  struct scan *scan = s->scan;
  if (!s->file) {
    ids_cursor_back(scan->core->ids, scan->backward ? IDS_BACKWARD : IDS_FORWARD, s->stmt);
  } else if (!scan->indexed) {
    table_cursor_back(&s->file->table, direction(s), s->stmt);
  } else {
    struct table_index *i = table_index(&s->file->table, scan->index_id);
    if (i) {
      index_cursor_back(i, direction(s), s->stmt);
    } else {
      sqlite3_finalize(s->stmt);
    }
  }
  s->stmt = NULL;
  s->pinned->pins--;
  s->pinned = NULL;
}

static bool killed(struct error *err, const struct scan *s, const char *what) {
  return error_set(err, ERR_QueryPlanKilled, "%s of %s went away while it was read", what, s->collection->ns);
}

static const struct key_range *range_of(const struct source *s) {
  const struct scan *scan = s->scan;
  return &scan->ranges[scan->backward ? scan->n_ranges - 1 - s->range : s->range];
}

// Where reading begins in the range: at its edge, or behind the place that was kept.
static void start_of(const struct source *s, struct key *key, uint32_t *file, int64_t *rid) {
  const struct key_range *r = range_of(s);
  if (s->placed) {
    *key = (struct key){.data = s->at_key.data, .len = s->at_key.len};
    *file = s->at_file;
    *rid = s->at_rid;
    return;
  }
  // File ids and rids begin at 1, so (low, 0, 0) is before low's rows, and (high, 0, 0) is behind those below high.
  *key = !s->scan->backward ? r->low : r->high.len ? r->high : KEY_ABOVE_ALL;
  *file = 0;
  *rid = 0;
}

static void bind_index_range(struct source *s, int rid_at) {
  const struct key_range *r = range_of(s);
  struct key key;
  uint32_t file;
  int64_t rid;
  start_of(s, &key, &file, &rid);
  bind_key(s->stmt, 1, key);
  if (rid_at == 3) sqlite3_bind_int64(s->stmt, 2, file);
  sqlite3_bind_int64(s->stmt, rid_at, rid);
  bind_key(s->stmt, rid_at + 1, s->scan->backward ? r->low : r->high.len ? r->high : KEY_ABOVE_ALL);
}

static void pin(struct source *s, struct db *d) {
  d->pins++;
  s->pinned = d;
  scan_activate(s->scan);
}

static enum step seek_ids(struct source *s) {
  struct scan *scan = s->scan;
  if (!ids_read(scan->core)) return STEP_END;
  s->stmt = ids_cursor(scan->core->ids, scan->backward ? IDS_BACKWARD : IDS_FORWARD);
  pin(s, &scan->core->ids->db);
  bind_index_range(s, 3);
  return STEP_ROW;
}

static enum step seek(struct source *s, struct error *err) {
  struct scan *scan = s->scan;
  if (!s->placed) scan->seeks++;
  if (!s->file) return seek_ids(s);
  struct table *t = &s->file->table;
  if (!file_read(s->file)) {
    if (!s->file->forgotten) return STEP_END;
    killed(err, scan, "a file");
    return STEP_KILLED;
  }
  if (!scan->indexed) {
    s->stmt = table_cursor(t, direction(s));
    sqlite3_bind_int64(s->stmt, 1, s->placed ? s->at_rid : scan->backward ? INT64_MAX : 0);
    pin(s, t->db);
    return STEP_ROW;
  }
  struct table_index *i = table_index(t, scan->index_id);
  if (!i) {
    killed(err, scan, "an index");
    return STEP_KILLED;
  }
  s->stmt = index_cursor(t, i, direction(s));
  pin(s, t->db);
  bind_index_range(s, 2);
  return STEP_ROW;
}

// --- rows ---

static void read_row(struct source *s) {
  if (!s->file) {
    s->key = column_key(s->stmt, 0);
    s->file_id = (uint32_t)sqlite3_column_int64(s->stmt, 1);
    s->rid = sqlite3_column_int64(s->stmt, 2);
    return;
  }
  s->file_id = file_now(s->file)->table.file;
  if (s->scan->indexed) {
    s->key = column_key(s->stmt, 0);
    s->rid = sqlite3_column_int64(s->stmt, 1);
  } else {
    s->rid = sqlite3_column_int64(s->stmt, 0);
  }
}

// Whether another source of the scan gives the document: a file with an _id index of its own, and its rows as of when
// it was merged into `f`, goes on giving them.
static bool given_elsewhere(const struct scan *scan, const struct store_file *f, int64_t rid) {
  for (size_t i = 0; i < scan->n_sources; i++) {
    struct store_file *own = scan->sources[i].file;
    sqlite3_stmt *held;
    struct key bytes;
    if (!own || !own->heir || file_now(own) != f || !file_read(own) || !table_get(&own->table, rid, &held, &bytes))
      continue;
    table_cursor_back(&own->table, CURSOR_GET, held);
    return true;
  }
  return false;
}

// A row of the ids file counts when the document is there, in a file that may be read. A merge gives each document a
// second row, with another file; rids are unique, so the second one is known by its rid.
static bool wanted_id(struct source *s) {
  struct scan *scan = s->scan;
  struct store_file *f = s->rid == s->given ? NULL : scan_file(scan, s->file_id);
  if (!f || !scan_fetch(scan, f, s->rid) || given_elsewhere(scan, f, s->rid)) return false;
  s->given = s->rid;
  return true;
}

// Whether the row counts; one of a multikey index only when its document was not given before.
static bool wanted(struct source *s) {
  struct scan *scan = s->scan;
  if (!s->file) return wanted_id(s);
  if (!scan->indexed) return true;
  const struct table_index *i = table_index(&s->file->table, scan->index_id);
  return !i || !i->multikey || set_add(&s->seen, s->rid);
}

static bool next_range(struct source *s) {
  give_back(s);
  s->placed = false;
  if (++s->range < s->scan->n_ranges) return true;
  s->ended = true;
  return false;
}

enum step source_next(struct source *s, struct error *err) {
  while (!s->ended) {
    if (!s->stmt) {
      enum step found = seek(s, err);
      if (found == STEP_KILLED) return found;
      if (found == STEP_END) s->ended = true;
      continue;
    }
    if (!db_step(s->pinned, s->stmt)) {
      (void)next_range(s);
      continue;
    }
    s->scan->keys++;
    read_row(s);
    if (wanted(s)) return STEP_ROW;
  }
  return STEP_END;
}

static void forget(struct rid_set *set, int64_t rid) {
  // Taking one out would break the chains of others; it becomes a value that no rid has.
  if (!set->cap) return;
  size_t at = slot_of(set, rid);
  if (set->slots[at] == rid) set->slots[at] = -1;
}

// The ids file: its document may have another row by then, with any file, and this one be stale (wanted_id()).
static void before_key(struct source *s) {
  s->at_file = s->scan->backward ? UINT32_MAX : 0;
  s->at_rid = 0;
  s->given = 0;
}

void source_save(struct source *s, bool pending) {
  if (!s->stmt) return;
  buf_clear(&s->at_key);
  if (s->key.len) buf_add(&s->at_key, s->key.data, s->key.len);
  s->at_file = s->file_id;
  s->at_rid = s->rid;
  s->placed = true;
  if (pending) { // its row is read again
    s->at_rid += s->scan->backward ? 1 : -1;
    s->scan->keys--;
    forget(&s->seen, s->rid);
    if (!s->file) before_key(s);
  }
  give_back(s);
  s->key = (struct key){0};
}

void source_free(struct source *s) {
  give_back(s);
  buf_free(&s->at_key);
  free(s->seen.slots);
}

int source_compare(const struct source *a, const struct source *b) {
  int order = a->scan->indexed ? key_compare(a->key, b->key) : 0;
  if (!order) order = (a->rid > b->rid) - (a->rid < b->rid);
  return a->scan->backward ? -order : order;
}
