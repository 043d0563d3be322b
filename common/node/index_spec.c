// What a client may ask of an index, in the form in which it is stored.
#include <string.h>

#include "common/bson/doc.h"
#include "common/node/ddl.h"
#include "common/node/internal.h"
#include "common/query/match.h"

enum { MAX_KEY_FIELDS = 32, INVALID_SPEC_OPTION = 197 };

static const char *const refused_kinds[] = {"text", "2d", "2dsphere", "geoHaystack", "columnstore", NULL};
// Options that only say how to build, or say nothing here.
static const char *const ignored[] = {"background", "v", "ns", "key", "name", NULL};
static const char *const refused[] = {"expireAfterSeconds",
                                      "wildcardProjection",
                                      "weights",
                                      "default_language",
                                      "language_override",
                                      "textIndexVersion",
                                      "2dsphereIndexVersion",
                                      "bits",
                                      "min",
                                      "max",
                                      "bucketSize",
                                      "storageEngine",
                                      "prepareUnique",
                                      "clustered",
                                      NULL};

static bool listed(const char *const *list, const char *word) {
  for (size_t i = 0; list[i]; i++) {
    if (!strcmp(list[i], word)) return true;
  }
  return false;
}

const char *index_name_of(struct arena *a, const bson_t *key) {
  const char *name = "";
  bson_iter_t it;
  bson_iter_init(&it, key);
  while (bson_iter_next(&it)) {
    const char *before = name[0] ? arena_printf(a, "%s_", name) : "";
    if (BSON_ITER_HOLDS_UTF8(&it)) {
      name = arena_printf(a, "%s%s_%s", before, bson_iter_key(&it), bson_iter_utf8(&it, NULL));
    } else {
      name = arena_printf(a, "%s%s_%lld", before, bson_iter_key(&it), (long long)iter_i64(&it));
    }
  }
  return name;
}

static bool check_path(const char *path, struct error *err) {
  if (!path[0]) return error_set(err, ERR_CannotCreateIndex, "Index keys cannot be an empty field.");
  if (strstr(path, "$**")) {
    return error_set(err, ERR_CannotCreateIndex, "wildcard indexes (%s) are not supported", path);
  }
  if (path[0] == '$' || strstr(path, ".$")) {
    return error_set(err, ERR_CannotCreateIndex,
                     "Index key contains an illegal field name: field name starts with '$'.");
  }
  if (path[0] == '.' || path[strlen(path) - 1] == '.' || strstr(path, "..")) {
    return error_set(err, ERR_CannotCreateIndex, "Index keys cannot contain an empty field.");
  }
  return true;
}

static bool check_key(const bson_t *key, bool *hashed, struct error *err) {
  bson_iter_t it;
  uint32_t fields = 0;
  *hashed = false;
  bson_iter_init(&it, key);
  while (bson_iter_next(&it)) {
    if (++fields > MAX_KEY_FIELDS) return error_set(err, 13103, "too many compound keys");
    if (!check_path(bson_iter_key(&it), err)) return false;
    if (BSON_ITER_HOLDS_UTF8(&it)) {
      const char *kind = bson_iter_utf8(&it, NULL);
      if (listed(refused_kinds, kind)) {
        return error_set(err, ERR_CannotCreateIndex, "indexes of type '%s' are not supported", kind);
      }
      if (strcmp(kind, "hashed")) return error_set(err, ERR_CannotCreateIndex, "Unknown index plugin '%s'", kind);
      if (*hashed) {
        return error_set(err, 31303, "A maximum of one index field is allowed to be hashed but found more");
      }
      *hashed = true;
    } else if (!iter_is_number(&it) || bson_iter_as_double(&it) == 0) {
      return error_set(err, ERR_CannotCreateIndex,
                       "Values in v:2 index key pattern must be a number not 0 or 'hashed'; field %s is not",
                       bson_iter_key(&it));
    }
  }
  return fields || error_set(err, ERR_CannotCreateIndex, "Index keys cannot be empty.");
}

// unique, sparse, hidden and partialFilterExpression are kept; the rest is harmless or refused by name.
static bool take_option(struct arena *a, const bson_iter_t *it, bson_t *out, struct error *err) {
  const char *name = bson_iter_key(it);
  if (listed(ignored, name)) return true;
  if (!strcmp(name, "unique") || !strcmp(name, "sparse") || !strcmp(name, "hidden")) {
    bool given = BSON_ITER_HOLDS_BOOL(it) ? bson_iter_bool(it) : iter_is_number(it) && iter_i64(it) != 0;
    if (given) BSON_APPEND_BOOL(out, name, true);
    return true;
  }
  if (!strcmp(name, "partialFilterExpression")) {
    if (!BSON_ITER_HOLDS_DOCUMENT(it)) {
      return error_set(err, ERR_TypeMismatch, "The field 'partialFilterExpression' must be an object");
    }
    if (!match_parse(a, iter_child(a, it), &(struct match_options){0}, err)) return false;
    BSON_APPEND_DOCUMENT(out, name, iter_child(a, it));
    return true;
  }
  if (!strcmp(name, "collation")) {
    bson_t *holder = arena_bson(a);
    doc_append_iter(holder, NULL, it);
    return collation_is_simple(holder, err);
  }
  if (listed(refused, name)) {
    return error_set(err, ERR_CannotCreateIndex, "index option '%s' is not supported", name);
  }
  return error_set(err, INVALID_SPEC_OPTION, "The field '%s' is not valid for an index specification", name);
}

bool index_spec_normalise(struct arena *a, const bson_t *spec, const bson_t **out, struct error *err) {
  const bson_t *key;
  bool hashed;
  if (!optional_doc(a, spec, "key", false, &key, err)) return false;
  if (!key)
    return error_set(err, ERR_FailedToParse, "The 'key' field is a required property of an index specification");
  if (!check_key(key, &hashed, err)) return false;
  const char *name = doc_str(spec, "name", NULL);
  if (!name) name = index_name_of(a, key);
  if (!name[0]) return error_set(err, ERR_CannotCreateIndex, "index name cannot be empty");
  if (!strcmp(name, "*")) return error_set(err, ERR_BadValue, "The index name '*' is not valid.");
  bson_t *made = arena_bson(a);
  BSON_APPEND_INT32(made, "v", 2);
  BSON_APPEND_DOCUMENT(made, "key", key);
  BSON_APPEND_UTF8(made, "name", name);
  bson_iter_t it;
  bson_iter_init(&it, spec);
  while (bson_iter_next(&it)) {
    if (!take_option(a, &it, made, err)) return false;
  }
  if (hashed && doc_has(made, "unique")) {
    return error_set(err, 16764, "Currently hashed indexes cannot guarantee uniqueness. Use a regular index.");
  }
  if (doc_has(made, "sparse") && doc_has(made, "partialFilterExpression")) {
    return error_set(err, ERR_CannotCreateIndex, "cannot mix \"partialFilterExpression\" and \"sparse\" options");
  }
  *out = made;
  return true;
}
