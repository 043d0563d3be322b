// Zones: which shards are in one, which ranges of a collection belong to it.
#include <string.h>

#include "common/bson/doc.h"
#include "configsvr/balancer.h"
#include "configsvr/chunk_commands.h"
#include "configsvr/commands.h"
#include "configsvr/zone_lists.h"

static const char *const zone_namespaces[] = {"config.shards", "config.tags", "config.collections"};

bool zone_is_only_on(const struct shard_type *shards, size_t n, const char *shard, const char *zone) {
  for (size_t i = 0; i < n; i++) {
    if (strcmp(shards[i].name, shard) != 0 && tags_name_zone(shards[i].tags, zone)) return false;
  }
  return true;
}

bool zone_has_ranges(struct config_server *cs, const char *zone) {
  bson_t filter = BSON_INITIALIZER;
  bson_append_utf8(&filter, "tag", -1, zone, -1);
  bool any = local_count(&cs->node, "config.tags", &filter) > 0;
  bson_destroy(&filter);
  return any;
}

// --- shards in zones ---

struct membership {
  const char *shard, *zone;
  bool add;
};

// The shard's document with its array of tags changed.
static const bson_t *with_tags(struct commit *c, const bson_t *doc, const struct shard_type *s,
                               const struct membership *x) {
  bson_t *set = arena_bson(c->arena), array;
  bson_append_array_begin(set, "tags", -1, &array);
  uint32_t n = 0;
  bson_iter_t it;
  if (s->tags && bson_iter_init(&it, s->tags)) {
    while (bson_iter_next(&it)) {
      if (!x->add && BSON_ITER_HOLDS_UTF8(&it) && strcmp(bson_iter_utf8(&it, NULL), x->zone) == 0) continue;
      doc_append_iter(&array, arena_printf(c->arena, "%u", n++), &it);
    }
  }
  if (x->add) bson_append_utf8(&array, arena_printf(c->arena, "%u", n), -1, x->zone, -1);
  bson_append_array_end(set, &array);
  return doc_with(c->arena, doc, set, NULL);
}

static bool commit_membership(struct commit *c, void *args, struct error *err) {
  const struct membership *x = args;
  struct shard_type s, *all;
  const bson_t *doc;
  size_t n;
  bool found;
  if (!catalog_read_shard(c->cs, c->arena, x->shard, &s, &found, err)) return false;
  if (!found) return error_set(err, ERR_ShardNotFound, "shard %s does not exist", x->shard);
  if (tags_name_zone(s.tags, x->zone) == x->add) return true;
  if (!catalog_read_shards(c->cs, c->arena, &all, &n, err)) return false;
  if (!x->add && zone_has_ranges(c->cs, x->zone) && zone_is_only_on(all, n, x->shard, x->zone)) {
    return error_set(err, ERR_ZoneStillInUse, "cannot remove a shard from zone if a chunk range is associated with it");
  }
  catalog_read_doc(c->cs, c->arena, "config.shards", x->shard, &doc);
  return commit_put(c, "config.shards", with_tags(c, doc, &s, x), err);
}

static bool change_membership(struct request *r, bool add, struct error *err) {
  struct membership x = {.shard = r->coll, .add = add};
  if (!x.shard || !*x.shard) return error_set(err, ERR_BadValue, "%s needs a shard's name", r->name);
  if (!request_required_str(r, "zone", &x.zone, err)) return false;
  if (!*x.zone) return error_set(err, ERR_BadValue, "a zone's name is not empty");
  if (!commit_run(r->op, config_of(r), zone_namespaces, 3, commit_membership, &x, err)) return false;
  balancer_wake(config_of(r)->balancer);
  return true;
}

bool config_add_shard_to_zone(struct request *r, bson_t *reply, struct error *err) {
  return change_membership(r, true, err);
}

bool config_remove_shard_from_zone(struct request *r, bson_t *reply, struct error *err) {
  return change_membership(r, false, err);
}

// --- ranges of zones ---

struct range {
  const char *ns, *zone; // zone NULL: take the range away
  const bson_t *min, *max;
};

// Completes the bounds to the shard key, when the collection is sharded already, and checks that they are some.
static bool complete_bounds(struct commit *c, const struct range *x, const bson_t **min, const bson_t **max,
                            struct error *err) {
  struct collection_type coll;
  struct shard_key key;
  bool found;
  *min = x->min;
  *max = x->max;
  if (!catalog_read_collection(c->cs, c->arena, x->ns, &coll, &found, err)) return false;
  if (!found || coll.unsplittable) return true;
  if (!shard_key_parse(c->arena, coll.key, &key, err)) return false;
  const bson_t *bounds[] = {x->min, x->max};
  for (size_t i = 0; i < 2; i++) {
    bson_iter_t it;
    size_t n = 0;
    bson_iter_init(&it, bounds[i]);
    while (bson_iter_next(&it) && n < key.n && strcmp(bson_iter_key(&it), key.paths[n]) == 0) {
      bson_type_t t = bson_iter_type(&it);
      bool hash = t == BSON_TYPE_INT64 || t == BSON_TYPE_MINKEY || t == BSON_TYPE_MAXKEY;
      if (key.hashed == (int)n && !hash) {
        return error_set(err, ERR_InvalidOptions,
                         "The hashed field %s of a zone's bound must be a NumberLong, MinKey or MaxKey", key.paths[n]);
      }
      n++;
    }
    if (n == 0 || n != bson_count_keys(bounds[i])) {
      return error_set(err, ERR_ShardKeyNotFound, "bound %s is not a prefix of the shard key %s",
                       doc_text(c->arena, bounds[i]), doc_text(c->arena, coll.key));
    }
  }
  *min = shard_key_extend(&key, c->arena, x->min, false);
  *max = shard_key_extend(&key, c->arena, x->max, false);
  return true;
}

// The row with exactly these bounds, or an error for one that overlaps otherwise.
static bool find_row(struct commit *c, const struct range *x, const bson_t *min, const bson_t *max,
                     struct tag_type *same, bool *found, struct error *err) {
  struct tag_type *tags;
  size_t n;
  *found = false;
  if (!catalog_read_tags(c->cs, c->arena, x->ns, &tags, &n, err)) return false;
  for (size_t i = 0; i < n; i++) {
    if (chunk_bound_compare(tags[i].min, min) == 0 && chunk_bound_compare(tags[i].max, max) == 0) {
      *same = tags[i];
      *found = true;
    } else if (x->zone && chunk_bound_compare(tags[i].min, max) < 0 && chunk_bound_compare(min, tags[i].max) < 0) {
      return error_set(err, ERR_RangeOverlapConflict, "Zone range: %s is overlapping with existing: %s",
                       range_text(c->arena, min, max), range_text(c->arena, tags[i].min, tags[i].max));
    }
  }
  return true;
}

static bool zone_exists(struct commit *c, const char *zone, bool *exists, struct error *err) {
  struct shard_type *shards;
  size_t n;
  *exists = false;
  if (!catalog_read_shards(c->cs, c->arena, &shards, &n, err)) return false;
  for (size_t i = 0; i < n; i++) *exists |= tags_name_zone(shards[i].tags, zone);
  return true;
}

static bool commit_range(struct commit *c, void *args, struct error *err) {
  const struct range *x = args;
  const bson_t *min, *max;
  struct tag_type row;
  bool found, exists;
  if (x->zone) {
    if (!zone_exists(c, x->zone, &exists, err)) return false;
    if (!exists) return error_set(err, ERR_ZoneNotFound, "zone %s does not exist", x->zone);
  }
  if (!complete_bounds(c, x, &min, &max, err)) return false;
  if (chunk_bound_compare(min, max) >= 0) {
    return error_set(err, ERR_FailedToParse, "min: %s should be less than max: %s", doc_text(c->arena, min),
                     doc_text(c->arena, max));
  }
  if (!find_row(c, x, min, max, &row, &found, err)) return false;
  if (!x->zone) return !found || commit_delete_oid(c, "config.tags", &row.id, err);
  if (found && strcmp(row.tag, x->zone) == 0) return true;
  if (!found) {
    row = (struct tag_type){.ns = x->ns, .min = min, .max = max};
    bson_oid_init(&row.id, NULL);
  }
  row.tag = x->zone;
  return commit_put(c, "config.tags", tag_type_doc(c->arena, &row), err);
}

bool config_update_zone_key_range(struct request *r, bson_t *reply, struct error *err) {
  struct range x = {0};
  bson_iter_t it;
  if (!request_namespace(r, &x.ns, err) || !request_copy_doc(r, "min", &x.min, err) ||
      !request_copy_doc(r, "max", &x.max, err)) {
    return false;
  }
  if (!doc_get(r->body, "zone", &it) || !(BSON_ITER_HOLDS_UTF8(&it) || BSON_ITER_HOLDS_NULL(&it))) {
    return error_set(err, ERR_TypeMismatch, "zone must be a string or null");
  }
  if (BSON_ITER_HOLDS_UTF8(&it)) x.zone = bson_iter_utf8(&it, NULL);
  if (!commit_run(r->op, config_of(r), zone_namespaces, 3, commit_range, &x, err)) return false;
  balancer_wake(config_of(r)->balancer);
  return true;
}
