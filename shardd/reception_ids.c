// `_id` is unique within a shard's part of a collection, also between a range being received and the rest.
//
// Whoever comes second finds the first, since both hold the lock of the `_id` from their look to their apply: a
// document of the range finds that of another range when it is written into the staged file; one that is inserted into
// another range finds the staged one when it is applied. Neither is refused then: the donor may have deleted its
// document meanwhile (one whose shard key is changed goes from one range to another like that). Such an `_id` is noted,
// and looked at again by the adoption, when writes wait on both sides.
#include "shardd/migration_destination.h"

#include <string.h>

#include "common/base/map.h"
#include "common/bson/doc.h"
#include "common/store/scan.h"

enum { MAX_NOTED = 10000 }; // looked up while writes wait

static void free_id(void *p) {
  bson_destroy(p);
}

void reception_ids_free(struct reception *r) {
  if (r->met_ids) map_free(r->met_ids, free_id);
}

void reception_ids_note(struct reception *r, const bson_value_t *id) {
  struct buf key __attribute__((cleanup(buf_cleanup))) = {0};
  if (!r->met_ids) r->met_ids = map_new();
  key_append(&key, id, false);
  if (map_count(r->met_ids) > MAX_NOTED || map_get(r->met_ids, key.data, key.len)) return;
  bson_t *doc = bson_new();
  doc_append_value(doc, "_id", id);
  map_put(r->met_ids, key.data, key.len, doc);
}

bool reception_ids_matter(const struct collection *c) {
  return c->indexes[0]->in_ids_file; // else equal `_id`s have equal shard keys, and are in one range
}

int64_t reception_staged_rid(const struct reception *r, struct collection *c, const struct index *i, struct arena *a,
                             struct key key) {
  struct key_range range = {.low = key, .high = key_prefix_end(a, key)};
  struct scan_row row;
  struct error err = {0};
  struct scan *s =
      scan_open(a, c, &(struct scan_spec){.index = i, .ranges = &range, .n_ranges = 1, .only_file = r->file});
  int64_t rid = scan_next(s, &row, &err) ? row.rid : 0;
  scan_close(s);
  return rid;
}

int64_t reception_staged_rid_of_id(const struct reception *r, struct collection *c, struct arena *a,
                                   const bson_value_t *id) {
  struct buf key __attribute__((cleanup(buf_cleanup))) = {0};
  key_append(&key, id, false);
  return reception_staged_rid(r, c, c->indexes[0], a, key_copy(a, &key));
}

void reception_put_applied(struct reception *r, struct collection *c, const struct change *put) {
  if (!r->file || put->file == r->file || r->state >= RECEPTION_IN_SECTION) return;
  if (memcmp(put->uuid, r->collection, 16) != 0 || !reception_ids_matter(c)) return;
  struct arena *a __attribute__((cleanup(arena_cleanup))) = arena_new();
  if (reception_staged_rid_of_id(r, c, a, &put->id)) reception_ids_note(r, &put->id);
}

struct check {
  struct reception *r;
  struct collection *c;
  struct arena *a;
  struct error *err;
  bool unique;
};

static bool check_id(void *ctx, const void *key, size_t len, void *value) {
  struct check *x = ctx;
  bson_value_t id;
  uint32_t file;
  int64_t rid;
  doc_value(value, "_id", &id);
  if (!store_find_id(x->c, x->a, &id, &file, &rid, NULL) || !reception_staged_rid_of_id(x->r, x->c, x->a, &id))
    return true;
  x->unique = error_set(x->err, ERR_DuplicateKey,
                        "E11000 duplicate key error collection: %s index: _id_ dup key: %s; a document of the range "
                        "being received and one of another range of this shard have it",
                        x->r->ns, doc_text(x->a, value));
  return false;
}

bool reception_ids_unique(struct operation *op, struct reception *r, struct collection *c, struct error *err) {
  if (!r->met_ids) return true;
  if (map_count(r->met_ids) > MAX_NOTED)
    return error_set(err, ERR_DuplicateKey, "More than %d documents of the range have _ids that others of %s have",
                     MAX_NOTED, r->ns);
  struct check x = {.r = r, .c = c, .a = op->arena, .err = err, .unique = true};
  map_each(r->met_ids, check_id, &x);
  return x.unique;
}
