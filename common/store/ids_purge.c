// Removing rows of ids files that name a forgotten file: in slices, from store_tick().
//
// Such rows are harmless (nobody takes them for true), so this is no part of the log: each member purges in its own
// time.
#include <stdlib.h>
#include <string.h>

#include "common/store/internal.h"

enum { PURGE_ROWS = 2000 }; // looked at a slice: about a millisecond

struct purge {
  uint8_t uuid[16];
  int64_t up_to;  // rows of stale_ids that this pass answers
  struct buf key; // of the last row seen
  int64_t file, rid;
};

static struct purge *next_pass(struct store *s) {
  sqlite3_stmt *q = db_prepare(&s->catalog, "SELECT uuid, max(n) FROM stale_ids GROUP BY uuid LIMIT 1");
  db_read(&s->catalog);
  struct purge *p = NULL;
  if (db_step(&s->catalog, q) && column_key(q, 0).len == 16) {
    p = calloc(1, sizeof *p);
    if (!p) abort();
    memcpy(p->uuid, column_key(q, 0).data, 16);
    p->up_to = sqlite3_column_int64(q, 1);
  }
  sqlite3_finalize(q);
  return p;
}

void ids_purge_free(struct purge *p) {
  if (!p) return;
  buf_free(&p->key);
  free(p);
}

static void end_pass(struct store *s) {
  struct purge *p = s->purge;
  db_write(&s->catalog);
  db_do(&s->catalog, "DELETE FROM stale_ids WHERE uuid = ? AND n <= ?", "ki", (struct key){.data = p->uuid, .len = 16},
        p->up_to);
  ids_purge_free(p);
  s->purge = NULL;
}

// Looks at the next rows; true: there are more.
static bool purge_rows(struct collection_core *c, struct purge *p) {
  if (!ids_read(c)) return false;
  db_write(&c->ids->db);
  sqlite3_stmt *q = ids_cursor(c->ids, IDS_FORWARD);
  bind_key(q, 1, (struct key){.data = p->key.data, .len = p->key.len});
  sqlite3_bind_int64(q, 2, p->file);
  sqlite3_bind_int64(q, 3, p->rid);
  bind_key(q, 4, KEY_ABOVE_ALL);
  // Collected first: the rows behind a cursor are not to change under it.
  struct arena *a = arena_new();
  struct stale_row {
    struct key key;
    uint32_t file;
    int64_t rid;
  } *stale = arena_alloc(a, PURGE_ROWS * sizeof *stale);
  size_t n = 0, seen = 0;
  while (seen < PURGE_ROWS && db_step(&c->ids->db, q)) {
    struct key key = column_key(q, 0);
    uint32_t file = (uint32_t)sqlite3_column_int64(q, 1);
    if (++seen == PURGE_ROWS) break; // it is the first of the next slice
    if (core_file(c, file)) continue;
    stale[n++] = (struct stale_row){{arena_memdup(a, key.data, key.len), key.len}, file, sqlite3_column_int64(q, 2)};
  }
  if (seen == PURGE_ROWS) {
    struct key key = column_key(q, 0);
    buf_clear(&p->key);
    buf_add(&p->key, key.data, key.len);
    p->file = sqlite3_column_int64(q, 1);
    p->rid = sqlite3_column_int64(q, 2) - 1;
  }
  ids_cursor_back(c->ids, IDS_FORWARD, q);
  for (size_t i = 0; i < n; i++) ids_erase(c->ids, stale[i].key, stale[i].file, stale[i].rid);
  arena_free(a);
  return seen == PURGE_ROWS;
}

void ids_purge(struct store *s) {
  if (!s->stale_ids || !s->replayed) return;
  if (!s->purge) {
    s->purge = next_pass(s);
    s->stale_ids = s->purge != NULL;
    if (!s->purge) return;
  }
  struct collection_core *c = map_get(s->by_uuid, s->purge->uuid, 16);
  if (!c || !purge_rows(c, s->purge)) end_pass(s);
}
