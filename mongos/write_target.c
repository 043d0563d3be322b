// Where each statement of a write goes.
//
//   insert                           the shard that owns the document's key
//   multi update, multi delete       every shard that the filter concerns
//   single, full key or one shard    there (an upsert only with the full key: it might belong elsewhere)
//   single, by _id                   every shard that the filter concerns: at most one of them has it
//   single, otherwise                alone: find one document first, then write to its shard (two_phase.h)
#include "mongos/write_target.h"

#include <string.h>

#include "common/bson/doc.h"
#include "common/bson/path.h"

static bool same_name(const char *a, const char *b) {
  return a == b || (a != NULL && b != NULL && strcmp(a, b) == 0);
}

// All statements of a collection that is not sharded, and runs of statements for one shard.
static void single(struct write_targeter *t, const char *shard, struct batch_targeting *out) {
  if (t->one.shard == NULL || !same_name(t->one.shard, shard)) {
    t->one = t->p->kind == PLACE_CHUNKS ? target_shard(t->p, shard) : target_primary(t->p);
  }
  out->targets = &t->one;
  out->n = 1;
}

static bool target_insert(struct write_targeter *t, const struct write_statement *s, struct batch_targeting *out,
                          struct error *err) {
  const struct shard_key *k = placement_key(t->p);
  bson_t doc;
  struct key key;
  struct chunk chunk;
  doc_view(&doc, s->data, s->len);
  for (size_t i = 0; i < k->n; i++) {
    if (strcmp(k->paths[i], "_id") == 0 && !doc_has(&doc, "_id")) {
      return error_set(err, ERR_InvalidIdField, "Shard key includes '_id', which the document to insert does not have");
    }
  }
  if (!path_encode_key(t->scratch, &doc, k->pattern, &key, err)) return false;
  chunk_map_find(t->p->routing->chunks, key, &chunk);
  single(t, chunk.shard, out);
  return true;
}

static bool is_operator_document(const bson_value_t *update) {
  if (update->value_type != BSON_TYPE_DOCUMENT) return true; // a pipeline
  bson_t doc;
  bson_iter_t it;
  doc_view(&doc, update->value.v_doc.data, update->value.v_doc.data_len);
  return bson_iter_init(&it, &doc) && bson_iter_next(&it) && bson_iter_key(&it)[0] == '$';
}

bool write_query_parse(enum write_kind kind, const struct write_statement *s, struct write_query *out,
                       struct error *err) {
  doc_view(&out->statement, s->data, s->len);
  const char *command = kind == WRITE_UPDATE ? "update.updates" : "delete.deletes";
  if (!doc_doc(&out->statement, "q", &out->filter)) {
    return error_set(err, 40414, "BSON field '%s.q' is missing but a required field", command);
  }
  if (kind == WRITE_DELETE) {
    if (!doc_has(&out->statement, "limit")) {
      return error_set(err, 40414, "BSON field '%s.limit' is missing but a required field", command);
    }
    int64_t limit = doc_i64(&out->statement, "limit", -1);
    if (limit != 0 && limit != 1) {
      return error_set(err, ERR_FailedToParse, "The limit field in delete objects must be 0 or 1. Got %" PRId64, limit);
    }
    out->multi = limit == 0;
    out->upsert = out->replacement = false;
    return true;
  }
  if (!doc_value(&out->statement, "u", &out->update)) {
    return error_set(err, 40414, "BSON field '%s.u' is missing but a required field", command);
  }
  out->multi = doc_bool(&out->statement, "multi", false);
  out->upsert = doc_bool(&out->statement, "upsert", false);
  out->replacement = !is_operator_document(&out->update);
  return true;
}

// {_id: value, ...}: no shard can have more than one such document.
static bool names_one_id(const bson_t *filter) {
  bson_value_t id;
  if (!doc_value(filter, "_id", &id)) return false;
  if (id.value_type == BSON_TYPE_REGEX || id.value_type == BSON_TYPE_ARRAY) return false;
  if (id.value_type != BSON_TYPE_DOCUMENT) return true;
  bson_t doc;
  bson_iter_t it;
  doc_view(&doc, id.value.v_doc.data, id.value.v_doc.data_len);
  return bson_iter_init(&it, &doc) && (!bson_iter_next(&it) || bson_iter_key(&it)[0] != '$');
}

static bool target_query(struct write_targeter *t, const struct write_query *q, struct batch_targeting *out,
                         struct error *err) {
  struct filter_spec f = {.filter = &q->filter, .options = &q->statement, .command = t->w->base};
  bool exact;
  if (!placement_targets(t->scratch, t->p, &f, &out->targets, &out->n, &exact, err)) return false;
  if (q->multi) {
    if (!q->upsert || exact) return true;
    return error_set(err, ERR_ShardKeyNotFound,
                     "Failed to target upsert by query :: could not extract exact shard key");
  }
  if (exact || (out->n == 1 && !q->upsert)) return true;
  if (!q->upsert && names_one_id(&q->filter)) {
    out->only_one = true;
    return true;
  }
  out->alone = true;
  return true;
}

bool write_target(void *ctx, size_t op, struct batch_targeting *out, struct error *err) {
  struct write_targeter *t = ctx;
  const struct write_statement *s = &t->w->statements[op];
  arena_reset(t->scratch);
  if (s->len > DOC_MAX_BYTES + 16 * 1024) {
    return error_set(err, ERR_BSONObjectTooLarge, "object to %s too large. size in bytes: %u, max size: %d",
                     t->w->kind == WRITE_INSERT ? "insert" : "write with", s->len, DOC_MAX_BYTES);
  }
  if (t->p->kind == PLACE_CONFIG) {
    t->one = target_config();
    out->targets = &t->one;
    out->n = 1;
    return true;
  }
  struct write_query q;
  if (t->w->kind != WRITE_INSERT && !write_query_parse(t->w->kind, s, &q, err)) return false;
  if (!placement_sharded(t->p)) {
    struct target *all;
    if (t->p->kind == PLACE_PRIMARY) {
      single(t, t->p->primary, out);
    } else {
      placement_all(t->scratch, t->p, &all);
      single(t, all->shard, out);
    }
    return true;
  }
  return t->w->kind == WRITE_INSERT ? target_insert(t, s, out, err) : target_query(t, &q, out, err);
}
