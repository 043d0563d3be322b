// A log of mixed entries, made from a seed, and the text of everything a store holds: for tests that replay.
//
// Three collections are written: db.a (sharded by x, several files), db.b (becomes sharded in place), config.c
// (internal); db.d comes and goes. The script knows which documents there are, as a primary would.
#ifndef SHARDLET_TEST_STORE_SCRIPT_H
#define SHARDLET_TEST_STORE_SCRIPT_H

#include "tests/unit/common/store/fixture.h"

enum { SCRIPT_FILES = 8, SCRIPT_DOCS = 20000, SCRIPT_COLLECTIONS = 4, SCRIPT_FIRST_FILE = 100 };

struct script_doc {
  int coll, file; // positions
  int64_t rid;
  int32_t id, x;
  bool alive;
  uint32_t copied; // the staged file that has a copy of it; 0 = none
};

struct script_coll {
  uint8_t uuid[16];
  bool exists, internal;
  int64_t next_rid;
  uint32_t files[SCRIPT_FILES]; // 0 = none; [0] is the first, active one
  bool active[SCRIPT_FILES];
  uint32_t next_index, index; // one secondary index at a time; 0 = none
  int build;                  // slices proposed so far; -1 = ready
};

struct script {
  uint64_t random;
  uint32_t next_file;
  int32_t next_id;
  int next_uuid;
  struct script_coll colls[SCRIPT_COLLECTIONS];
  struct script_doc *docs;
  size_t n_docs;
  struct change_list *list;
  struct arena *a;
  const bson_t **entries; // [0] is entry 1
  size_t n;
};

static uint32_t pick(struct script *s, uint32_t below) {
  s->random = s->random * UINT64_C(6364136223846793005) + 1442695040888963407u;
  return (uint32_t)(s->random >> 33) % below;
}

// change.h takes collections where it only needs their uuid.
static const struct collection *named(struct script *s, const struct script_coll *c) {
  struct collection *shown = arena_zalloc(s->a, sizeof *shown);
  memcpy(shown->uuid, c->uuid, 16);
  return shown;
}

static const bson_t *script_json(struct script *s, const char *text) {
  struct fixture f = {.a = s->a};
  return json(&f, "%s", text);
}

static struct key script_key(struct script *s, int32_t n) {
  struct fixture f = {.a = s->a};
  return num(&f, n);
}

static void script_create(struct script *s, int at) {
  static const char *const names[] = {"db.a", "db.b", "config.c", "db.d"};
  static const char *const keys[] = {"{\"x\": 1}", "{}", "{}", "{\"_id\": \"hashed\"}"};
  struct script_coll *c = &s->colls[at];
  *c = (struct script_coll){.exists = true, .internal = at == 2, .next_rid = 1, .next_index = 2, .build = -1};
  memset(c->uuid, 0x10 + at, 16);
  c->uuid[15] = (uint8_t)s->next_uuid++;
  c->files[0] = s->next_file++;
  c->active[0] = true;
  change_create(s->list, c->uuid, names[at], script_json(s, "{}"), c->files[0], script_json(s, keys[at]),
                script_json(s, "[{\"id\": 1, \"spec\": {\"v\": 2, \"key\": {\"x\": 1}, \"name\": \"x_1\"}}]"));
}

static const bson_t *script_put(struct script *s, struct script_doc *d) {
  struct script_coll *c = &s->colls[d->coll];
  bson_t *doc = arena_bson(s->a);
  BSON_APPEND_INT32(doc, "_id", d->id);
  BSON_APPEND_INT32(doc, "x", d->x);
  if (pick(s, 4) == 0) {
    bson_t array;
    BSON_APPEND_ARRAY_BEGIN(doc, "y", &array);
    BSON_APPEND_INT32(&array, "0", (int32_t)pick(s, 50));
    BSON_APPEND_INT32(&array, "1", (int32_t)pick(s, 50));
    bson_append_array_end(doc, &array);
  } else if (pick(s, 4)) {
    BSON_APPEND_INT32(doc, "y", (int32_t)pick(s, 1000));
  }
  const char *pad = "some more bytes for the document to have a size";
  pad += pick(s, 40);
  BSON_APPEND_UTF8(doc, "pad", pad);
  change_put(s->list, named(s, c), c->files[d->file], d->rid, doc);
  return doc;
}

static void script_insert(struct script *s) {
  int at = (int)pick(s, SCRIPT_COLLECTIONS);
  struct script_coll *c = &s->colls[at];
  if (!c->exists || s->n_docs == SCRIPT_DOCS) return;
  int file = (int)pick(s, SCRIPT_FILES);
  if (!c->files[file]) file = 0;
  if (!c->files[file]) return;
  struct script_doc *d = &s->docs[s->n_docs++];
  *d = (struct script_doc){at, file, c->next_rid++, s->next_id++, (int32_t)pick(s, 100), true};
  if (file) d->x += 1000 * file; // each file has its own range
  (void)script_put(s, d);
}

static struct script_doc *script_any(struct script *s) {
  for (int tries = 0; tries < 20 && s->n_docs; tries++) {
    struct script_doc *d = &s->docs[pick(s, (uint32_t)s->n_docs)];
    if (d->alive && s->colls[d->coll].exists && s->colls[d->coll].files[d->file]) return d;
  }
  return NULL;
}

static void script_replace(struct script *s) {
  struct script_doc *d = script_any(s);
  if (!d) return;
  if (!d->file && d->x < 1000) d->x = (int32_t)pick(s, 100);
  (void)script_put(s, d);
}

static void script_delete(struct script *s) {
  struct script_doc *d = script_any(s);
  if (!d) return;
  bson_value_t id = value_int32(d->id);
  change_delete(s->list, named(s, &s->colls[d->coll]), s->colls[d->coll].files[d->file], d->rid, &id);
  d->alive = false;
}

static void script_index(struct script *s) {
  struct script_coll *c = &s->colls[pick(s, SCRIPT_COLLECTIONS)];
  if (!c->exists) return;
  if (!c->index) {
    c->index = c->next_index++;
    c->build = 0;
    change_index(s->list, c->uuid, c->index,
                 script_json(s, pick(s, 2) ? "{\"v\": 2, \"key\": {\"y\": -1, \"x\": 1}, \"name\": \"y_x\"}"
                                           : "{\"v\": 2, \"key\": {\"y\": 1}, \"name\": \"y\", \"sparse\": true}"));
  } else if (c->build >= 0 && c->build < 8) {
    for (int i = 0; i < SCRIPT_FILES; i++) {
      if (c->files[i]) change_index_build(s->list, c->uuid, c->index, c->files[i], c->build * 10, 10);
    }
    c->build++;
  } else if (c->build >= 0) {
    for (int i = 0; i < SCRIPT_FILES; i++) {
      if (c->files[i]) change_index_build(s->list, c->uuid, c->index, c->files[i], 80, 100000);
    }
    change_index_ready(s->list, c->uuid, c->index);
    c->build = -1;
  } else {
    change_unindex(s->list, c->uuid, c->index);
    c->index = 0;
  }
}

static void script_file(struct script *s) {
  struct script_coll *c = &s->colls[pick(s, 2)];
  int at = 1 + (int)pick(s, SCRIPT_FILES - 1);
  if (!c->exists) return;
  struct key min = script_key(s, at * 1000), max = script_key(s, at * 1000 + 1000);
  if (!c->files[at]) {
    c->files[at] = s->next_file++;
    c->active[at] = false;
    change_file(s->list, c->uuid, c->files[at], min, max);
  } else if (!c->active[at]) {
    c->active[at] = true;
    change_adopt(s->list, c->uuid, c->files[at], min, max);
  } else if (pick(s, 2) == 0) {
    change_unfile(s->list, c->uuid, c->files[at]);
    c->files[at] = 0;
    for (size_t i = 0; i < s->n_docs; i++) {
      if (&s->colls[s->docs[i].coll] == c && s->docs[i].file == at) s->docs[i].alive = false;
    }
  }
}

// Brings the copy that a staged file has of a document of another one up to date.
static void script_copy(struct script *s, struct script_doc *d, uint32_t to) {
  const struct collection *c = named(s, &s->colls[d->coll]);
  bson_value_t id = value_int32(d->id);
  if (d->alive) {
    change_copy(s->list, c, to, d->rid, script_put(s, d));
  } else if (d->copied == to) {
    change_uncopy(s->list, c, to, d->rid, &id);
  }
  d->copied = d->alive ? to : 0;
}

// A staged file takes the place of an active one: some documents are copied at once, all that is missing together with
// the merge.
static void script_merge(struct script *s) {
  int at = (int)pick(s, 2), to = 1 + (int)pick(s, SCRIPT_FILES - 1), from = (int)pick(s, SCRIPT_FILES);
  struct script_coll *c = &s->colls[at];
  if (!c->exists || !c->files[to] || c->active[to] || from == to || !c->files[from] || !c->active[from]) return;
  bool all = pick(s, 2);
  for (size_t i = 0; i < s->n_docs; i++) {
    struct script_doc *d = &s->docs[i];
    if (d->coll == at && d->file == from && (all || pick(s, 3) == 0)) script_copy(s, d, c->files[to]);
  }
  if (!all) return;
  change_merge(s->list, c->uuid, c->files[to], &c->files[from], 1);
  int place = from ? to : 0; // the first file is always at 0
  for (size_t i = 0; i < s->n_docs; i++) {
    if (s->docs[i].coll == at && (s->docs[i].file == from || s->docs[i].file == to)) s->docs[i].file = place;
  }
  c->files[place] = c->files[to];
  c->active[place] = true;
  c->files[place == to ? from : to] = 0;
}

// Deletes all of a range, so that the script knows what is left.
static void script_range(struct script *s) {
  int at = (int)pick(s, 2), file = (int)pick(s, SCRIPT_FILES);
  struct script_coll *c = &s->colls[at];
  if (!c->exists || !c->files[file]) return;
  int32_t low = file * 1000 + (int32_t)pick(s, 90), high = low + 1 + (int32_t)pick(s, 20);
  if (at == 1) return; // it may not be sharded yet
  change_range_delete(s->list, c->uuid, c->files[file], script_key(s, low), script_key(s, high), 100000);
  for (size_t i = 0; i < s->n_docs; i++) {
    struct script_doc *d = &s->docs[i];
    if (d->coll == at && d->file == file && d->x >= low && d->x < high) d->alive = false;
  }
}

static void script_session(struct script *s) {
  uint8_t lsid[16] = {(uint8_t)pick(s, 5)};
  bson_t reply;
  bson_init(&reply);
  BSON_APPEND_INT32(&reply, "n", (int32_t)pick(s, 1000));
  struct key k = script_key(s, (int32_t)pick(s, 100));
  change_session(s->list, lsid, (int64_t)s->n / 10, (int32_t)pick(s, 3), &reply, named(s, &s->colls[0]), &k);
  bson_destroy(&reply);
}

static void script_ddl(struct script *s) {
  struct script_coll *b = &s->colls[1], *d = &s->colls[3];
  switch (pick(s, 4)) {
  case 0: change_options(s->list, b->uuid, script_json(s, arena_printf(s->a, "{\"size\": %u}", pick(s, 100)))); break;
  case 1: change_rename(s->list, b->uuid, pick(s, 2) ? "db.renamed" : "db.b", NULL); break;
  case 2: change_shard_key(s->list, b->uuid, script_json(s, pick(s, 4) ? "{\"x\": 1}" : "{}")); break;
  default:
    if (d->exists) {
      change_drop(s->list, d->uuid);
      for (size_t i = 0; i < s->n_docs; i++) {
        if (s->docs[i].coll == 3) s->docs[i].alive = false;
      }
      d->exists = false;
    } else {
      script_create(s, 3);
    }
  }
}

static void script_entry(struct script *s) {
  uint32_t what = pick(s, 100);
  if (what < 55) {
    for (uint32_t n = 1 + pick(s, 4); n; n--) {
      uint32_t kind = pick(s, 10);
      if (kind < 5) {
        script_insert(s);
      } else if (kind < 8) {
        script_replace(s);
      } else {
        script_delete(s);
      }
    }
  } else if (what < 67) {
    script_index(s);
  } else if (what < 77) {
    script_file(s);
  } else if (what < 80) {
    script_merge(s);
  } else if (what < 87) {
    script_range(s);
  } else if (what < 92) {
    script_session(s);
  } else {
    script_ddl(s);
  }
}

__attribute__((unused)) static struct script *script_new(uint64_t seed, size_t n) {
  struct arena *a = arena_new();
  struct script *s = arena_zalloc(a, sizeof *s);
  s->a = a;
  s->random = seed;
  s->next_file = SCRIPT_FIRST_FILE;
  s->next_id = 1;
  s->docs = arena_alloc(a, SCRIPT_DOCS * sizeof *s->docs);
  s->entries = arena_alloc(a, n * sizeof(*s->entries));
  s->list = arena_alloc(a, sizeof *s->list);
  changes_init(s->list);
  for (int i = 0; i < SCRIPT_COLLECTIONS; i++) script_create(s, i);
  while (s->n < n) {
    if (s->n) script_entry(s);
    if (!s->list->n) change_noop(s->list);
    const bson_t *e = changes_finish(s->list, (uint64_t)(s->n + 1) << 32, 1700000000000 + (int64_t)s->n * 20000);
    s->entries[s->n++] = doc_copy(a, e);
    changes_clear(s->list);
  }
  return s;
}

__attribute__((unused)) static void script_free(struct script *s) {
  changes_cleanup(s->list);
  arena_free(s->a);
}

__attribute__((unused)) static void script_apply(const struct script *s, struct store *to, uint64_t from,
                                                 uint64_t up_to) {
  for (uint64_t i = from; i <= up_to; i++) store_apply(to, i, s->entries[i - 1]);
}

// --- everything a store holds ---

static void dump_scan(struct buf *out, struct collection *c, const struct index *index, const struct range_file *file) {
  struct arena *a = arena_new();
  struct scan *s = scan_open(a, c, &(struct scan_spec){.index = index, .only_file = file->id});
  struct scan_row row;
  while (scan_next(s, &row, NULL)) {
    buf_printf(out, "    %ld", (long)row.rid);
    for (size_t i = 0; i < row.key.len; i++) buf_printf(out, "%02x", row.key.data[i]);
    const bson_t *doc = scan_document(s, &row);
    assert_non_null(doc);
    if (!index) {
      buf_printf(out, " %s", doc_text(a, doc));
      bson_value_t id;
      uint32_t in = 0;
      int64_t rid = 0;
      (void)doc_value(doc, "_id", &id);
      bool found = store_find_id(c, a, &id, &in, &rid, NULL);
      if (file->state == FILE_ACTIVE) buf_printf(out, " %d %d %ld", found, (int)in, (long)rid);
    }
    buf_printf(out, "\n");
  }
  arena_free(a);
}

static bool dump_collection(void *ctx, struct collection *c) {
  struct buf *out = ctx;
  if (strcmp(c->db, "local") == 0) return true; // a member's own
  struct arena *a = arena_new();
  buf_printf(out, "%s %02x%02x options %s key %s\n", c->ns, c->uuid[0], c->uuid[15], doc_text(a, c->options),
             doc_text(a, c->shard_key));
  for (size_t i = 0; i < c->n_intervals; i++)
    buf_printf(out, "  interval of %zu bytes -> %u\n", c->intervals[i].min.len, c->intervals[i].file);
  for (size_t i = 0; i < c->n_indexes; i++) {
    const struct index *x = c->indexes[i];
    buf_printf(out, "  index %u %s ready %d multikey %d ids %d bytes %ld\n", x->id, doc_text(a, x->spec), x->ready,
               x->multikey, x->in_ids_file, x->in_ids_file ? 0 : (long)collection_index_bytes(c, x));
  }
  for (size_t n = 0; n < c->n_files; n++) {
    const struct range_file *r = c->files[n];
    buf_printf(out, "  file %u state %d count %ld bytes %ld\n", r->id, (int)r->state, (long)r->count, (long)r->bytes);
    dump_scan(out, c, NULL, r);
    for (size_t i = 0; i < c->n_indexes; i++) {
      buf_printf(out, "   by %u\n", c->indexes[i]->id);
      dump_scan(out, c, c->indexes[i], r);
    }
  }
  buf_printf(out, "  next %ld %u\n", (long)collection_next_rid(c), collection_next_index_id(c));
  arena_free(a);
  return true;
}

__attribute__((unused)) static struct buf dump(struct store *s) {
  struct buf out = {0};
  store_reset_counters(s);
  store_each_collection(s, dump_collection, &out);
  struct arena *a = arena_new();
  for (uint8_t i = 0; i < 5; i++) {
    uint8_t lsid[16] = {i};
    int64_t txn = store_session_txn_number(s, lsid);
    buf_printf(&out, "session %d at %ld:", i, (long)txn);
    for (int32_t stmt = 0; stmt < 3; stmt++) {
      const bson_t *reply = store_session_statement(s, a, lsid, txn, stmt);
      buf_printf(&out, " %s", reply ? doc_text(a, reply) : "-");
    }
    buf_printf(&out, "\n");
  }
  arena_free(a);
  store_reset_counters(s);
  return out;
}

// Says where two dumps begin to differ.
__attribute__((unused)) static bool same_dump(const struct buf *a, const struct buf *b) {
  const char *x = buf_str(a), *y = buf_str(b);
  if (strcmp(x, y) == 0) return true;
  size_t at = 0, line = 0;
  while (x[at] && x[at] == y[at]) {
    if (x[at++] == '\n') line = at;
  }
  print_error("expected: %.*s\ngot:      %.*s\n", (int)strcspn(x + line, "\n"), x + line, (int)strcspn(y + line, "\n"),
              y + line);
  return false;
}

#endif
