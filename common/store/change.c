// Building an entry of the log, and reading one.
#include "common/store/change.h"

#include <string.h>

#include "common/bson/doc.h"

enum { CHANGE_OVERHEAD = 64, ENTRY_OVERHEAD = 64 };

void changes_init(struct change_list *l) {
  bson_init(&l->doc);
  bson_init(&l->changes);
  l->n = 0;
  l->bytes = ENTRY_OVERHEAD;
}

void changes_cleanup(struct change_list *l) {
  bson_destroy(&l->doc);
  bson_destroy(&l->changes);
}

void changes_clear(struct change_list *l) {
  bson_reinit(&l->doc);
  bson_reinit(&l->changes);
  l->n = 0;
  l->bytes = ENTRY_OVERHEAD;
}

const bson_t *changes_finish(struct change_list *l, uint64_t ts, int64_t wall_ms) {
  bson_reinit(&l->doc);
  doc_append_ts(&l->doc, "ts", ts);
  BSON_APPEND_DATE_TIME(&l->doc, "wall", wall_ms);
  BSON_APPEND_ARRAY(&l->doc, "c", &l->changes);
  return &l->doc;
}

uint64_t entry_ts(const bson_t *entry) {
  uint64_t ts;
  return doc_timestamp(entry, "ts", &ts) ? ts : 0;
}

// --- building ---

static void begin(struct change_list *l, bson_t *change, const char *kind) {
  char buffer[16];
  const char *name;
  bson_uint32_to_string(l->n++, &name, buffer, sizeof buffer);
  BSON_APPEND_DOCUMENT_BEGIN(&l->changes, name, change);
  BSON_APPEND_UTF8(change, "k", kind);
}

static void begin_of(struct change_list *l, bson_t *change, const char *kind, const uint8_t uuid[16]) {
  begin(l, change, kind);
  doc_append_uuid(change, "u", uuid);
}

static void end(struct change_list *l, bson_t *change) {
  bson_append_document_end(&l->changes, change);
  l->bytes = l->changes.len + ENTRY_OVERHEAD;
}

static void append_key(bson_t *change, const char *name, struct key k) {
  BSON_APPEND_BINARY(change, name, BSON_SUBTYPE_BINARY, k.data ? k.data : (const uint8_t *)"", (uint32_t)k.len);
}

static void put(struct change_list *l, const char *kind, const struct collection *c, uint32_t file, int64_t rid,
                const bson_t *doc, bool replaces) {
  bson_t change;
  begin_of(l, &change, kind, c->uuid);
  doc_append_num(&change, "f", file);
  doc_append_num(&change, "r", rid);
  BSON_APPEND_DOCUMENT(&change, "d", doc);
  if (replaces) BSON_APPEND_BOOL(&change, "o", true);
  end(l, &change);
}

void change_put(struct change_list *l, const struct collection *c, uint32_t file, int64_t rid, const bson_t *doc) {
  put(l, "p", c, file, rid, doc, false);
}

void change_replace(struct change_list *l, const struct collection *c, uint32_t file, int64_t rid, const bson_t *doc) {
  put(l, "p", c, file, rid, doc, true);
}

void change_copy(struct change_list *l, const struct collection *c, uint32_t file, int64_t rid, const bson_t *doc) {
  put(l, "copy", c, file, rid, doc, false);
}

static void take_out(struct change_list *l, const char *kind, const struct collection *c, uint32_t file, int64_t rid,
                     const bson_value_t *id) {
  bson_t change;
  begin_of(l, &change, kind, c->uuid);
  doc_append_num(&change, "f", file);
  doc_append_num(&change, "r", rid);
  doc_append_value(&change, "i", id);
  end(l, &change);
}

void change_delete(struct change_list *l, const struct collection *c, uint32_t file, int64_t rid,
                   const bson_value_t *id) {
  take_out(l, "d", c, file, rid, id);
}

void change_uncopy(struct change_list *l, const struct collection *c, uint32_t file, int64_t rid,
                   const bson_value_t *id) {
  take_out(l, "uncopy", c, file, rid, id);
}

void change_create(struct change_list *l, const uint8_t uuid[16], const char *ns, const bson_t *options, uint32_t file,
                   const bson_t *shard_key, const bson_t *indexes) {
  bson_t change;
  begin_of(l, &change, "create", uuid);
  BSON_APPEND_UTF8(&change, "ns", ns);
  BSON_APPEND_DOCUMENT(&change, "o", options);
  doc_append_num(&change, "f", file);
  BSON_APPEND_DOCUMENT(&change, "sk", shard_key);
  BSON_APPEND_ARRAY(&change, "x", indexes);
  end(l, &change);
}

void change_drop(struct change_list *l, const uint8_t uuid[16]) {
  bson_t change;
  begin_of(l, &change, "drop", uuid);
  end(l, &change);
}

void change_rename(struct change_list *l, const uint8_t uuid[16], const char *ns, const uint8_t *drop_target) {
  bson_t change;
  begin_of(l, &change, "rename", uuid);
  BSON_APPEND_UTF8(&change, "ns", ns);
  if (drop_target) doc_append_uuid(&change, "dropTarget", drop_target);
  end(l, &change);
}

void change_options(struct change_list *l, const uint8_t uuid[16], const bson_t *options) {
  bson_t change;
  begin_of(l, &change, "options", uuid);
  BSON_APPEND_DOCUMENT(&change, "o", options);
  end(l, &change);
}

void change_shard_key(struct change_list *l, const uint8_t uuid[16], const bson_t *key) {
  bson_t change;
  begin_of(l, &change, "shardkey", uuid);
  BSON_APPEND_DOCUMENT(&change, "sk", key);
  end(l, &change);
}

void change_index(struct change_list *l, const uint8_t uuid[16], uint32_t id, const bson_t *spec) {
  bson_t change;
  begin_of(l, &change, "index", uuid);
  doc_append_num(&change, "id", id);
  BSON_APPEND_DOCUMENT(&change, "x", spec);
  end(l, &change);
}

void change_index_build(struct change_list *l, const uint8_t uuid[16], uint32_t id, uint32_t file, int64_t after_rid,
                        int32_t n) {
  bson_t change;
  begin_of(l, &change, "build", uuid);
  doc_append_num(&change, "id", id);
  doc_append_num(&change, "f", file);
  doc_append_num(&change, "a", after_rid);
  doc_append_num(&change, "n", n);
  end(l, &change);
}

static void index_change(struct change_list *l, const char *kind, const uint8_t uuid[16], uint32_t id) {
  bson_t change;
  begin_of(l, &change, kind, uuid);
  doc_append_num(&change, "id", id);
  end(l, &change);
}

void change_index_ready(struct change_list *l, const uint8_t uuid[16], uint32_t id) {
  index_change(l, "ready", uuid, id);
}

void change_unindex(struct change_list *l, const uint8_t uuid[16], uint32_t id) {
  index_change(l, "unindex", uuid, id);
}

static void begin_range(struct change_list *l, bson_t *change, const char *kind, const uint8_t uuid[16], uint32_t file,
                        struct key min, struct key max) {
  begin_of(l, change, kind, uuid);
  doc_append_num(change, "f", file);
  append_key(change, "min", min);
  append_key(change, "max", max);
}

void change_file(struct change_list *l, const uint8_t uuid[16], uint32_t file, struct key min, struct key max) {
  bson_t change;
  begin_range(l, &change, "file", uuid, file, min, max);
  end(l, &change);
}

void change_adopt(struct change_list *l, const uint8_t uuid[16], uint32_t file, struct key min, struct key max) {
  bson_t change;
  begin_range(l, &change, "adopt", uuid, file, min, max);
  end(l, &change);
}

void change_merge(struct change_list *l, const uint8_t uuid[16], uint32_t file, const uint32_t *from, size_t n) {
  bson_t change, list;
  begin_of(l, &change, "merge", uuid);
  doc_append_num(&change, "f", file);
  BSON_APPEND_ARRAY_BEGIN(&change, "from", &list);
  for (size_t i = 0; i < n; i++) {
    char buffer[16];
    const char *name;
    bson_uint32_to_string((uint32_t)i, &name, buffer, sizeof buffer);
    doc_append_num(&list, name, from[i]);
  }
  bson_append_array_end(&change, &list);
  end(l, &change);
}

void change_unfile(struct change_list *l, const uint8_t uuid[16], uint32_t file) {
  bson_t change;
  begin_of(l, &change, "unfile", uuid);
  doc_append_num(&change, "f", file);
  end(l, &change);
}

void change_range_delete(struct change_list *l, const uint8_t uuid[16], uint32_t file, struct key min, struct key max,
                         int32_t n) {
  bson_t change;
  begin_range(l, &change, "range", uuid, file, min, max);
  doc_append_num(&change, "n", n);
  end(l, &change);
}

void change_session(struct change_list *l, const uint8_t lsid[16], int64_t txn_number, int32_t stmt_id,
                    const bson_t *reply, const struct collection *c, const struct key *shard_key) {
  bson_t change;
  begin(l, &change, "session");
  doc_append_uuid(&change, "l", lsid);
  BSON_APPEND_INT64(&change, "t", txn_number);
  BSON_APPEND_INT32(&change, "s", stmt_id);
  BSON_APPEND_DOCUMENT(&change, "r", reply);
  if (c) doc_append_uuid(&change, "u", c->uuid);
  if (c && shard_key) append_key(&change, "sk", *shard_key);
  end(l, &change);
}

void change_noop(struct change_list *l) {
  bson_t change;
  begin(l, &change, "noop");
  end(l, &change);
}

// --- reading ---

static void read_uuid(struct change *c, const bson_iter_t *it) {
  bson_subtype_t subtype;
  uint32_t len;
  const uint8_t *data;
  if (!BSON_ITER_HOLDS_BINARY(it)) return;
  bson_iter_binary(it, &subtype, &len, &data);
  if (len == 16) memcpy(c->uuid, data, 16);
}

static void read_change(struct change *c, const bson_iter_t *at) {
  *c = (struct change){.kind = ""};
  iter_doc(&c->raw, at);
  bson_init(&c->doc);
  bson_iter_t it;
  if (!bson_iter_init(&it, &c->raw)) return;
  while (bson_iter_next(&it)) {
    const char *name = bson_iter_key(&it);
    if (name[0] == 0 || name[1] != 0) continue; // those with longer names are looked up where they are used
    switch (name[0]) {
    case 'k': c->kind = BSON_ITER_HOLDS_UTF8(&it) ? bson_iter_utf8(&it, NULL) : ""; break;
    case 'u': read_uuid(c, &it); break;
    case 'f': c->file = (uint32_t)iter_i64(&it); break;
    case 'r': c->rid = iter_is_number(&it) ? iter_i64(&it) : 0; break;
    case 'i': c->id = *bson_iter_value(&it); break;
    case 'd':
      iter_doc(&c->doc, &it);
      (void)doc_value(&c->doc, "_id", &c->id);
      break;
    default: break;
    }
  }
}

void changes_each(const bson_t *entry, bool (*fn)(void *ctx, const struct change *c), void *ctx) {
  bson_t list;
  bson_iter_t it;
  if (!doc_doc(entry, "c", &list) || !bson_iter_init(&it, &list)) return;
  struct change c;
  while (bson_iter_next(&it)) {
    read_change(&c, &it);
    if (!fn(ctx, &c)) return;
  }
}
