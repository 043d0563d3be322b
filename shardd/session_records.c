// See session_records.h.
#include "shardd/session_records.h"

#include <stdlib.h>
#include <string.h>

#include "common/bson/doc.h"
#include "shardd/bson_array.h"

enum { PAGE_BYTES = 1024 * 1024 };

void session_record_add(struct write *w, const struct collection *c, const bson_t *record) {
  uint8_t lsid[16];
  bson_t reply;
  bson_value_t sk;
  struct key key = {0};
  if (!doc_uuid(record, "l", lsid) || !doc_doc(record, "r", &reply)) return;
  bool has_key = doc_value(record, "sk", &sk) && sk.value_type == BSON_TYPE_BINARY;
  if (has_key) key = (struct key){.data = sk.value.v_binary.data, .len = sk.value.v_binary.data_len};
  change_session(write_changes(w), lsid, doc_i64(record, "t", 0), (int32_t)doc_i64(record, "s", 0), &reply, c,
                 has_key ? &key : NULL);
}

// --- pages ---

void record_place_of(const bson_t *record, struct record_place *out) {
  out->given = doc_uuid(record, "l", out->lsid);
  out->stmt = (int32_t)doc_i64(record, "s", 0);
}

void record_place_append(bson_t *to, const char *name, const struct record_place *p) {
  bson_t place;
  bson_append_document_begin(to, name, -1, &place);
  doc_append_uuid(&place, "l", p->lsid);
  BSON_APPEND_INT32(&place, "s", p->stmt);
  bson_append_document_end(to, &place);
}

bool record_place_parse(const bson_t *body, const char *name, struct record_place *out, struct error *err) {
  bson_t place;
  *out = (struct record_place){0};
  if (!doc_doc(body, name, &place)) return true;
  record_place_of(&place, out);
  return out->given || error_set(err, ERR_BadValue, "'%s' names no session", name);
}

struct placed {
  struct record_place at;
  bson_t record; // a view
};

static int compare_places(const struct record_place *a, const struct record_place *b) {
  int c = memcmp(a->lsid, b->lsid, 16);
  return c ? c : a->stmt < b->stmt ? -1 : a->stmt > b->stmt;
}

static int by_place(const void *a, const void *b) {
  return compare_places(&((const struct placed *)a)->at, &((const struct placed *)b)->at);
}

void session_records_page(struct arena *a, struct store *s, const struct collection *c,
                          const struct record_place *after, bson_t *reply) {
  bson_t *all = arena_bson(a), page;
  store_sessions_for_range(s, c, (struct key){0}, (struct key){0}, all);
  size_t n = 0, count = bson_count_keys(all);
  struct placed *sorted = aligned_alloc(128, (count + 1) * sizeof *sorted); // as its documents want it
  bson_iter_t it;
  bson_iter_init(&it, all);
  while (bson_iter_next(&it)) {
    iter_doc(&sorted[n].record, &it);
    record_place_of(&sorted[n].record, &sorted[n].at);
    if (!after->given || compare_places(&sorted[n].at, after) > 0) n++;
  }
  qsort(sorted, n, sizeof *sorted, by_place);
  BSON_APPEND_ARRAY_BEGIN(reply, "oplog", &page);
  struct bson_array out = {.bson = &page};
  size_t i = 0;
  for (; i < n && out.bytes < PAGE_BYTES; i++) bson_array_add(&out, &sorted[i].record);
  bson_append_array_end(reply, &page);
  BSON_APPEND_BOOL(reply, "more", i < n);
  free(sorted);
}
