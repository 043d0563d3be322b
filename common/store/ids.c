// The rows of ids.sqlite.
#include "common/store/ids.h"

#include "common/store/table.h"

static void finalize(struct ids *i) {
  sqlite3_finalize(i->insert);
  sqlite3_finalize(i->erase);
  i->insert = i->erase = NULL;
  for (int k = 0; k < IDS_CURSOR_KINDS; k++) {
    sqlite3_finalize(i->idle[k]);
    i->idle[k] = NULL;
  }
}

static void before_commit(void *owner) {
  struct ids *i = owner;
  if (!i->changed) return;
  db_meta_set_i64(&i->db, "entries", i->entries);
  db_meta_set_i64(&i->db, "bytes", i->key_bytes);
  i->changed = false;
  i->dirty_pages = 0;
}

static void closing(void *owner) {
  struct ids *i = owner;
  finalize(i);
  buf_free(&i->highest);
  i->highest_known = false;
}

void ids_init(struct ids *i, char *path) {
  static const struct db_owner ops = {.before_commit = before_commit, .closing = closing};
  *i = (struct ids){.db = {.path = path, .owner_ops = &ops, .owner = i}};
}

bool ids_open(struct ids *i, bool create, struct error *err) {
  if (!db_open(&i->db, create, err)) return false;
  // Also of a file that is there: a crash may have come between its making and the table's.
  db_exec(&i->db, "CREATE TABLE IF NOT EXISTS ids (key BLOB NOT NULL, file INTEGER NOT NULL, rid INTEGER NOT NULL,"
                  " PRIMARY KEY (key, file, rid)) WITHOUT ROWID");
  i->entries = db_meta_i64(&i->db, "entries", 0);
  i->key_bytes = db_meta_i64(&i->db, "bytes", 0);
  return true;
}

static void bind_row(sqlite3_stmt *s, struct key key, uint32_t file, int64_t rid) {
  bind_key(s, 1, key);
  sqlite3_bind_int64(s, 2, file);
  sqlite3_bind_int64(s, 3, rid);
}

static struct key highest(const struct ids *i) {
  return (struct key){i->highest.data, i->highest.len};
}

static void set_highest(struct ids *i, struct key key) {
  buf_clear(&i->highest);
  buf_add(&i->highest, key.data, key.len);
}

bool ids_may_have(struct ids *i, struct key key) {
  if (!i->highest_known) {
    sqlite3_stmt *s = db_prepare(&i->db, "SELECT key FROM ids ORDER BY key DESC LIMIT 1");
    buf_clear(&i->highest);
    if (db_step(&i->db, s)) set_highest(i, column_key(s, 0));
    sqlite3_finalize(s);
    i->highest_known = true;
  }
  return key_compare(key, highest(i)) <= 0;
}

void ids_put(struct ids *i, struct key key, uint32_t file, int64_t rid) {
  if (!i->insert) i->insert = db_prepare(&i->db, "INSERT INTO ids VALUES (?, ?, ?)");
  bind_row(i->insert, key, file, rid);
  if (i->highest_known && key_compare(key, highest(i)) > 0) set_highest(i, key);
  if (!db_run_unique(&i->db, i->insert)) return;
  i->entries++;
  i->key_bytes += (int64_t)key.len;
  i->db.dirty_bytes += key.len + dirty_estimate(&i->dirty_pages, i->key_bytes + i->entries * 16);
  i->changed = true;
}

void ids_erase(struct ids *i, struct key key, uint32_t file, int64_t rid) {
  if (!i->erase) i->erase = db_prepare(&i->db, "DELETE FROM ids WHERE key = ? AND file = ? AND rid = ?");
  bind_row(i->erase, key, file, rid);
  db_run(&i->db, i->erase);
  if (sqlite3_changes(i->db.sql) == 0) return;
  i->db.dirty_bytes += dirty_estimate(&i->dirty_pages, i->key_bytes + i->entries * 16);
  i->entries--;
  i->key_bytes -= (int64_t)key.len;
  i->changed = true;
}

sqlite3_stmt *ids_cursor(struct ids *i, enum ids_cursor_kind kind) {
  static const char *const sql[IDS_CURSOR_KINDS] = {
      [IDS_FORWARD] = "SELECT key, file, rid FROM ids WHERE (key, file, rid) > (?1, ?2, ?3) AND key < ?4"
                      " ORDER BY key, file, rid",
      [IDS_BACKWARD] = "SELECT key, file, rid FROM ids WHERE (key, file, rid) < (?1, ?2, ?3) AND key >= ?4"
                       " ORDER BY key DESC, file DESC, rid DESC",
      [IDS_FIND] = "SELECT key, file, rid FROM ids WHERE key = ?1",
  };
  sqlite3_stmt *s = i->idle[kind];
  i->idle[kind] = NULL;
  return s ? s : db_prepare(&i->db, sql[kind]);
}

void ids_cursor_back(struct ids *i, enum ids_cursor_kind kind, sqlite3_stmt *s) {
  if (!s) return;
  sqlite3_reset(s);
  if (i->idle[kind]) {
    sqlite3_finalize(s);
  } else {
    i->idle[kind] = s;
  }
}
