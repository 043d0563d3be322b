// The shard key pattern: parsing it, taking keys out of documents and filters, completing bounds.
#include "common/sharding/shard_key.h"

#include <string.h>

#include "common/bson/compare.h"
#include "common/bson/doc.h"
#include "common/bson/hash.h"
#include "common/bson/path.h"

// "a..b", ".a", "a." and parts that begin with '$' name no field.
static bool path_is_valid(const char *path) {
  for (const char *part = path;;) {
    if (*part == '.' || *part == '\0' || *part == '$') return false;
    const char *dot = strchr(part, '.');
    if (!dot) return true;
    part = dot + 1;
  }
}

static bool parse_field(const bson_t *pattern, bson_iter_t *it, struct shard_key *out, struct arena *a,
                        struct error *err) {
  const char *path = bson_iter_key(it);
  if (!path_is_valid(path)) {
    return error_set(err, ERR_BadValue,
                     "Shard key %s contains the field name '%s', which is empty, has an empty part or starts with '$'",
                     doc_text(a, pattern), path);
  }
  if (BSON_ITER_HOLDS_UTF8(it) && strcmp(bson_iter_utf8(it, NULL), "hashed") == 0) {
    if (out->hashed >= 0) {
      return error_set(
          err, ERR_BadValue,
          "Shard key %s can contain at most one 'hashed' field, and multiple numerical fields set to a value of 1",
          doc_text(a, pattern));
    }
    out->hashed = (int)out->n;
  } else {
    bson_value_t v = *bson_iter_value(it);
    if (!value_is_number(&v) || value_double(&v) != 1.0) {
      return error_set(err, ERR_BadValue,
                       "Shard key %snumerical fields must be set to a value of 1 (ascending). Failed to parse field %s",
                       doc_text(a, pattern), path);
    }
  }
  out->paths[out->n++] = arena_strdup(a, path);
  return true;
}

bool shard_key_parse(struct arena *a, const bson_t *pattern, struct shard_key *out, struct error *err) {
  *out = (struct shard_key){.hashed = -1};
  uint32_t fields = bson_count_keys(pattern);
  if (fields == 0) return error_set(err, ERR_BadValue, "Shard key is empty");
  if (fields > 32) return error_set(err, ERR_BadValue, "Shard key %s has more than 32 fields", doc_text(a, pattern));
  out->pattern = doc_copy(a, pattern);
  out->paths = arena_alloc(a, fields * sizeof *out->paths);
  bson_iter_t it;
  bson_iter_init(&it, pattern);
  while (bson_iter_next(&it)) {
    if (!parse_field(pattern, &it, out, a, err)) return false;
  }
  for (size_t i = 0; i < out->n; i++) {
    for (size_t j = 0; j < i; j++) {
      if (strcmp(out->paths[i], out->paths[j]) == 0) {
        return error_set(err, ERR_BadValue, "Shard key %s names the field %s twice", doc_text(a, pattern),
                         out->paths[i]);
      }
    }
  }
  return true;
}

static void append_key_part(const struct shard_key *k, size_t i, bson_t *to, const bson_value_t *v) {
  if (k->hashed != (int)i) {
    doc_append_value(to, k->paths[i], v);
    return;
  }
  bson_append_int64(to, k->paths[i], -1, bson_hash64(v, 0));
}

bool shard_key_of_document(const struct shard_key *k, struct arena *a, const bson_t *doc, const bson_t **out,
                           struct error *err) {
  bson_t *plain;
  if (!path_extract_key(a, doc, k->pattern, true, &plain, err)) return false;
  *out = plain;
  if (k->hashed < 0) return true;
  bson_t *key = arena_bson(a);
  bson_iter_t it;
  bson_iter_init(&it, plain);
  for (size_t i = 0; i < k->n && bson_iter_next(&it); i++) append_key_part(k, i, key, bson_iter_value(&it));
  *out = key;
  return true;
}

struct parent_search {
  const char *path;
  bson_value_t *out;
  bool found;
};

// Whether an equality on a whole sub-document ({a: {b: 5}}) fixes the path inside it ("a.b").
static bool look_into_parent(void *ctx, const char *path, const bson_value_t *v) {
  struct parent_search *s = ctx;
  size_t len = strlen(path);
  if (v->value_type != BSON_TYPE_DOCUMENT || strncmp(s->path, path, len) != 0 || s->path[len] != '.') return true;
  bson_t doc;
  if (!bson_init_static(&doc, v->value.v_doc.data, v->value.v_doc.data_len)) return true;
  if (!path_get(&doc, s->path + len + 1, s->out)) return true;
  s->found = true;
  return false;
}

static bool filter_value(const struct match *m, const char *path, bson_value_t *out) {
  if (!match_equality(m, path, out)) {
    struct parent_search s = {path, out, false};
    if (strchr(path, '.')) match_each_equality(m, look_into_parent, &s);
    if (!s.found) return false;
  }
  return out->value_type != BSON_TYPE_ARRAY && out->value_type != BSON_TYPE_REGEX &&
         out->value_type != BSON_TYPE_UNDEFINED;
}

bool shard_key_of_filter(const struct shard_key *k, struct arena *a, const struct match *m, const bson_t **out) {
  bson_t *key = arena_bson(a);
  for (size_t i = 0; i < k->n; i++) {
    bson_value_t v;
    if (!filter_value(m, k->paths[i], &v)) return false;
    append_key_part(k, i, key, &v);
  }
  *out = key;
  return true;
}

bool shard_key_is_bound(const struct shard_key *k, const bson_t *bound) {
  bson_iter_t it;
  bson_iter_init(&it, bound);
  for (size_t i = 0; i < k->n; i++) {
    if (!bson_iter_next(&it) || strcmp(bson_iter_key(&it), k->paths[i]) != 0) return false;
    bson_type_t t = bson_iter_type(&it);
    if (t == BSON_TYPE_ARRAY || t == BSON_TYPE_REGEX || t == BSON_TYPE_UNDEFINED) return false;
    if (k->hashed == (int)i && t != BSON_TYPE_MINKEY && t != BSON_TYPE_MAXKEY && !iter_is_number(&it)) return false;
  }
  return !bson_iter_next(&it);
}

const bson_t *shard_key_extend(const struct shard_key *k, struct arena *a, const bson_t *prefix, bool with_max) {
  bson_t *out = arena_bson(a);
  bson_iter_t it;
  bson_iter_init(&it, prefix);
  size_t i = 0;
  for (; i < k->n && bson_iter_next(&it); i++) doc_append_iter(out, k->paths[i], &it);
  for (; i < k->n; i++) {
    if (with_max) {
      bson_append_maxkey(out, k->paths[i], -1);
    } else {
      bson_append_minkey(out, k->paths[i], -1);
    }
  }
  return out;
}

const bson_t *shard_key_global_min(const struct shard_key *k, struct arena *a) {
  bson_t none = BSON_INITIALIZER;
  return shard_key_extend(k, a, &none, false);
}

const bson_t *shard_key_global_max(const struct shard_key *k, struct arena *a) {
  bson_t none = BSON_INITIALIZER;
  return shard_key_extend(k, a, &none, true);
}

bool shard_key_equal_patterns(const bson_t *a, const bson_t *b) {
  return doc_compare(a, b) == 0;
}

bool shard_key_prefix_of(const struct shard_key *k, const bson_t *index_key) {
  bson_iter_t mine, its;
  bson_iter_init(&mine, k->pattern);
  bson_iter_init(&its, index_key);
  while (bson_iter_next(&mine)) {
    if (!bson_iter_next(&its) || strcmp(bson_iter_key(&mine), bson_iter_key(&its)) != 0) return false;
    bson_value_t m = *bson_iter_value(&mine), i = *bson_iter_value(&its);
    // An index may also be descending: it finds the same keys.
    bool same_kind = value_is_number(&m) ? value_is_number(&i) && value_double(&i) != 0 : value_equal(&m, &i);
    if (!same_kind) return false;
  }
  return true;
}

// --- bounds ---

struct key bound_key(struct arena *a, const bson_t *bound) {
  struct buf b __attribute__((cleanup(buf_cleanup))) = {0};
  key_append_doc(&b, bound, NULL);
  return key_copy(a, &b);
}

bool bound_is_all(const bson_t *bound, bson_type_t type) {
  bson_iter_t it;
  if (!bson_iter_init(&it, bound)) return false;
  while (bson_iter_next(&it))
    if (bson_iter_type(&it) != type) return false;
  return true;
}

struct key bound_end(struct arena *a, const bson_t *max) {
  struct buf b __attribute__((cleanup(buf_cleanup))) = {0};
  key_append_doc(&b, max, NULL);
  // No encoding is a prefix of another one, so this sorts behind the bound's own and before nothing that exists.
  if (bound_is_all(max, BSON_TYPE_MAXKEY)) buf_add_byte(&b, 0xff);
  return key_copy(a, &b);
}

const char *range_text(struct arena *a, const bson_t *min, const bson_t *max) {
  return arena_printf(a, "[%s, %s)", doc_text(a, min), doc_text(a, max));
}
