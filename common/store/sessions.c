// Retryable-write records: what each statement of a session's latest transaction number answered.
//
// Bounded by two rules that depend on the log alone, so that all members keep the same records: a higher transaction
// number removes what the session had before, and a session without a record for 30 minutes of the log's time is
// removed, once the minute changes.
#include <stdlib.h>
#include <string.h>

#include "common/bson/doc.h"
#include "common/store/internal.h"

enum { MINUTE_MS = 60 * 1000, IDLE_MS = 30 * MINUTE_MS };

struct session {
  int64_t txn, wall_ms;
  int32_t stmt; // the last one recorded
  bool several; // there may be more records than that one
};

struct sessions {
  struct store *store;
  struct map *by_lsid;
  int64_t expired_minute;
  sqlite3_stmt *put, *remove, *find;
};

struct sessions *sessions_load(struct store *s) {
  struct sessions *t = calloc(1, sizeof *t);
  if (!t) abort();
  t->store = s;
  t->by_lsid = map_new();
  t->expired_minute = db_meta_i64(&s->catalog, "sessions_expired", 0);
  sqlite3_stmt *q =
      db_prepare(&s->catalog, "SELECT lsid, max(txn), max(wall), max(stmt), count(*) FROM statements GROUP BY lsid");
  while (db_step(&s->catalog, q)) {
    struct session *session = calloc(1, sizeof *session);
    if (!session) abort();
    session->txn = sqlite3_column_int64(q, 1);
    session->wall_ms = sqlite3_column_int64(q, 2);
    session->stmt = sqlite3_column_int(q, 3);
    session->several = sqlite3_column_int64(q, 4) > 1;
    struct key lsid = column_key(q, 0);
    free(map_put(t->by_lsid, lsid.data, lsid.len, session));
  }
  sqlite3_finalize(q);
  return t;
}

void sessions_finalize(struct sessions *t) {
  sqlite3_finalize(t->put);
  sqlite3_finalize(t->remove);
  sqlite3_finalize(t->find);
  t->put = t->remove = t->find = NULL;
}

void sessions_free(struct sessions *t) {
  if (!t) return;
  sessions_finalize(t);
  map_free(t->by_lsid, free);
  free(t);
}

// --- applying ---

static void remove_records(struct sessions *t, const void *lsid, size_t len) {
  struct db *d = &t->store->catalog;
  if (!t->remove) t->remove = db_prepare(d, "DELETE FROM statements WHERE lsid = ?");
  bind_blob(t->remove, 1, lsid, len);
  db_run(d, t->remove);
}

static bool remove_if_idle(void *ctx, const void *lsid, size_t len, void *value) {
  struct sessions *t = ctx;
  struct session *session = value;
  if (session->wall_ms >= t->store->entry_wall - IDLE_MS) return true;
  remove_records(t, lsid, len);
  (void)map_remove(t->by_lsid, lsid, len);
  free(session);
  return true;
}

static void expire(struct sessions *t) {
  int64_t minute = t->store->entry_wall / MINUTE_MS;
  if (minute <= t->expired_minute) return;
  t->expired_minute = minute;
  db_meta_set_i64(&t->store->catalog, "sessions_expired", minute);
  map_each(t->by_lsid, remove_if_idle, t);
}

static void put_record(struct sessions *t, const uint8_t lsid[16], int64_t txn, int32_t stmt, const bson_t *change) {
  struct db *d = &t->store->catalog;
  if (!t->put) t->put = db_prepare(d, "INSERT OR REPLACE INTO statements VALUES (?, ?, ?, ?, ?, ?, ?)");
  sqlite3_clear_bindings(t->put);
  bind_blob(t->put, 1, lsid, 16);
  sqlite3_bind_int(t->put, 2, stmt);
  sqlite3_bind_int64(t->put, 3, txn);
  sqlite3_bind_int64(t->put, 4, t->store->entry_wall);
  bson_t reply;
  if (!doc_doc(change, "r", &reply)) bson_init(&reply);
  bind_blob(t->put, 5, bson_get_data(&reply), reply.len);
  uint8_t uuid[16];
  if (doc_uuid(change, "u", uuid)) bind_blob(t->put, 6, uuid, sizeof uuid);
  bson_value_t key;
  if (doc_value(change, "sk", &key) && key.value_type == BSON_TYPE_BINARY)
    bind_blob(t->put, 7, key.value.v_binary.data, key.value.v_binary.data_len);
  db_run(d, t->put);
  d->dirty_bytes += reply.len + 100;
}

void sessions_apply(struct store *s, const struct change *c) {
  if (!store_touch(s, &s->catalog)) return;
  struct sessions *t = s->sessions;
  expire(t);
  uint8_t lsid[16];
  if (!doc_uuid(&c->raw, "l", lsid)) return;
  int64_t txn = doc_i64(&c->raw, "t", 0);
  int32_t stmt = (int32_t)doc_i64(&c->raw, "s", 0);
  struct session *session = map_get(t->by_lsid, lsid, sizeof lsid);
  if (!session) {
    session = calloc(1, sizeof *session);
    if (!session) abort();
    session->txn = txn;
    session->stmt = stmt;
    (void)map_put(t->by_lsid, lsid, sizeof lsid, session);
  }
  if (txn < session->txn) return; // of a chunk that came here: the session has gone on since
  if (txn > session->txn) {
    // The common case, one statement after the other, replaces the one row.
    if (session->several || session->stmt != stmt) remove_records(t, lsid, sizeof lsid);
    session->several = false;
  } else if (session->stmt != stmt) {
    session->several = true;
  }
  session->txn = txn;
  session->stmt = stmt;
  session->wall_ms = s->entry_wall;
  put_record(t, lsid, txn, stmt, &c->raw);
}

// --- reading ---

int64_t store_session_txn_number(struct store *s, const uint8_t lsid[16]) {
  const struct session *session = map_get(s->sessions->by_lsid, lsid, 16);
  return session ? session->txn : -1;
}

// Stands on the statement's record, which is (reply, key). false: there is none. To be reset afterwards.
static bool find_record(struct store *s, const uint8_t lsid[16], int64_t txn_number, int32_t stmt_id) {
  struct sessions *t = s->sessions;
  if (store_session_txn_number(s, lsid) != txn_number) return false;
  if (!t->find)
    t->find = db_prepare(&s->catalog, "SELECT reply, key FROM statements WHERE lsid = ? AND stmt = ? AND txn = ?");
  db_read(&s->catalog);
  bind_blob(t->find, 1, lsid, 16);
  sqlite3_bind_int(t->find, 2, stmt_id);
  sqlite3_bind_int64(t->find, 3, txn_number);
  if (db_step(&s->catalog, t->find)) return true;
  sqlite3_reset(t->find);
  return false;
}

const bson_t *store_session_statement(struct store *s, struct arena *a, const uint8_t lsid[16], int64_t txn_number,
                                      int32_t stmt_id) {
  if (!find_record(s, lsid, txn_number, stmt_id)) return NULL;
  struct key blob = column_key(s->sessions->find, 0);
  const bson_t *reply = arena_bson_copy(a, blob.data, blob.len);
  sqlite3_reset(s->sessions->find);
  return reply;
}

bool store_session_key(struct store *s, struct arena *a, const uint8_t lsid[16], int64_t txn_number, int32_t stmt_id,
                       struct key *out) {
  if (!find_record(s, lsid, txn_number, stmt_id)) return false;
  bool keyed = sqlite3_column_type(s->sessions->find, 1) != SQLITE_NULL;
  struct key key = column_key(s->sessions->find, 1);
  if (keyed) *out = (struct key){.data = arena_memdup(a, key.data, key.len), .len = key.len};
  sqlite3_reset(s->sessions->find);
  return keyed;
}

static void append_record(sqlite3_stmt *q, const struct collection *c, uint32_t position, bson_t *array) {
  char buffer[16];
  const char *name;
  bson_uint32_to_string(position, &name, buffer, sizeof buffer);
  bson_t row, reply;
  struct key lsid = column_key(q, 0), blob = column_key(q, 3);
  BSON_APPEND_DOCUMENT_BEGIN(array, name, &row);
  if (lsid.len == 16) doc_append_uuid(&row, "l", lsid.data);
  BSON_APPEND_INT64(&row, "t", sqlite3_column_int64(q, 1));
  BSON_APPEND_INT32(&row, "s", sqlite3_column_int(q, 2));
  doc_view(&reply, blob.data, blob.len);
  BSON_APPEND_DOCUMENT(&row, "r", &reply);
  doc_append_uuid(&row, "u", c->uuid);
  if (sqlite3_column_type(q, 4) != SQLITE_NULL) {
    struct key key = column_key(q, 4);
    BSON_APPEND_BINARY(&row, "sk", BSON_SUBTYPE_BINARY, key.data, (uint32_t)key.len);
  }
  bson_append_document_end(array, &row);
}

void store_sessions_for_range(struct store *s, const struct collection *c, struct key min, struct key max,
                              bson_t *array) {
  shard_key_normalize_range(c->shard_key, &min, &max);
  db_read(&s->catalog);
  sqlite3_stmt *q = db_prepare(&s->catalog, "SELECT lsid, txn, stmt, reply, key FROM statements WHERE uuid = ?");
  bind_blob(q, 1, c->uuid, 16);
  uint32_t n = bson_count_keys(array);
  while (db_step(&s->catalog, q)) {
    // A record without a key is of a time when the collection was not sharded: it goes with the whole of it.
    bool keyed = sqlite3_column_type(q, 4) != SQLITE_NULL;
    struct key key = column_key(q, 4);
    bool wanted = keyed ? key_compare(key, min) >= 0 && (!max.len || key_compare(key, max) < 0) : !min.len;
    if (wanted) append_record(q, c, n++, array);
  }
  sqlite3_finalize(q);
}
