// Operators on one field: $set, $unset, $inc, $mul, $min, $max, $rename, $setOnInsert, $currentDate, $bit.
#include <math.h>
#include <string.h>

#include "common/bson/compare.h"
#include "common/bson/path.h"
#include "common/query/decimal.h"
#include "common/query/number_sum.h"
#include "common/query/type_names.h"
#include "common/query/update_internal.h"

static const char *name_of(const bson_value_t *v) {
  return type_name(v->value_type);
}

static const char *last_part(const char *path) {
  const char *dot = strrchr(path, '.');
  return dot ? dot + 1 : path;
}

// --- $set, $setOnInsert, $unset ---

static bool apply_set(const struct update_leaf *l, struct update_run *r, const bson_value_t *old, bson_value_t *out) {
  *out = l->value;
  return true;
}

static bool apply_unset(const struct update_leaf *l, struct update_run *r, const bson_value_t *old, bson_value_t *out) {
  *out = value_missing();
  return true;
}

// What does nothing this time creates no path either.
bool update_leaf_is_active(const struct update_leaf *l, const struct update_run *r) {
  bson_value_t v;
  if (l->source) return path_get(r->doc, l->source, &v);
  return r->insert || strcmp(l->op->name, "$setOnInsert") != 0;
}

// --- $inc, $mul ---

static bool parse_number(struct update_parser *p, struct update_leaf *l) {
  if (value_is_number(&l->value)) return true;
  return error_set(p->err, ERR_TypeMismatch, "Cannot %s with non-numeric argument: {%s: %s}",
                   strcmp(l->op->name, "$inc") == 0 ? "increment" : "multiply", l->path,
                   value_text(p->arena, &l->value));
}

static bool not_numeric(const struct update_leaf *l, struct update_run *r, const bson_value_t *old) {
  return error_set(r->err, ERR_TypeMismatch,
                   "Cannot apply %s to a value of non-numeric type. %s has the field '%s' of "
                   "non-numeric type %s",
                   l->op->name, update_document_id(r), last_part(l->path), name_of(old));
}

static bool overflow(const struct update_leaf *l, struct update_run *r, const bson_value_t *old) {
  return error_set(r->err, ERR_BadValue,
                   "Failed to apply %s operations to current value ((NumberLong)%lld) for document %s", l->op->name,
                   (long long)value_i64(old), update_document_id(r));
}

// a + b or a * b. Two int32 that do not fit make an int64; int64s that do not fit are an error, unlike in expressions.
static bool combine(const struct update_leaf *l, struct update_run *r, const bson_value_t *a, const bson_value_t *b,
                    bool multiply, bson_value_t *out) {
  int wa = number_width(a->value_type), wb = number_width(b->value_type), width = wa > wb ? wa : wb;
  int64_t n;
  if (width == 3) {
    bson_decimal128_t x = decimal_of(a), y = decimal_of(b);
    *out = value_decimal(multiply ? decimal_multiply(x, y) : decimal_add(x, y));
    return true;
  }
  if (width == 2) {
    double x = value_double(a), y = value_double(b);
    *out = value_real(multiply ? x * y : x + y);
    return true;
  }
  int64_t x = value_i64(a), y = value_i64(b);
  if (multiply ? __builtin_mul_overflow(x, y, &n) : __builtin_add_overflow(x, y, &n)) return overflow(l, r, a);
  *out = width == 1 ? value_int64(n) : value_number(n);
  return true;
}

static bool apply_inc(const struct update_leaf *l, struct update_run *r, const bson_value_t *old, bson_value_t *out) {
  *out = l->value;
  if (value_is_missing(old)) return true;
  return value_is_number(old) ? combine(l, r, old, &l->value, false, out) : not_numeric(l, r, old);
}

static bool apply_mul(const struct update_leaf *l, struct update_run *r, const bson_value_t *old, bson_value_t *out) {
  bson_value_t zero = value_int32(0);
  if (value_is_missing(old)) return combine(l, r, &zero, &l->value, true, out); // zero of the operand's type
  return value_is_number(old) ? combine(l, r, old, &l->value, true, out) : not_numeric(l, r, old);
}

// --- $min, $max ---

static bool apply_min(const struct update_leaf *l, struct update_run *r, const bson_value_t *old, bson_value_t *out) {
  *out = value_is_missing(old) || value_compare(&l->value, old) < 0 ? l->value : *old;
  return true;
}

static bool apply_max(const struct update_leaf *l, struct update_run *r, const bson_value_t *old, bson_value_t *out) {
  *out = value_is_missing(old) || value_compare(&l->value, old) > 0 ? l->value : *old;
  return true;
}

// --- $currentDate ---

static bool parse_current_date(struct update_parser *p, struct update_leaf *l) {
  bson_iter_t it;
  if (l->value.value_type == BSON_TYPE_BOOL) return true;
  if (!value_is_doc(&l->value)) {
    return error_set(p->err, ERR_BadValue,
                     "%s is not valid type for $currentDate. Please use a boolean ('true') or a "
                     "$type expression ({$type: 'timestamp/date'}).",
                     name_of(&l->value));
  }
  for (value_iter(&l->value, &it); bson_iter_next(&it);) {
    if (strcmp(bson_iter_key(&it), "$type") != 0) {
      return error_set(p->err, ERR_BadValue, "Unrecognized $currentDate option: %s", bson_iter_key(&it));
    }
    const bson_value_t *type = bson_iter_value(&it);
    l->timestamp = value_equals_text(type, "timestamp");
    if (!l->timestamp && !value_equals_text(type, "date")) {
      return error_set(p->err, ERR_BadValue,
                       "The '$type' string field is required to be 'date' or 'timestamp': "
                       "{$currentDate: {field : {$type: 'date'}}}");
    }
  }
  return true;
}

static bool apply_current_date(const struct update_leaf *l, struct update_run *r, const bson_value_t *old,
                               bson_value_t *out) {
  *out = value_date(r->now_ms);
  if (!l->timestamp) return true;
  *out = (bson_value_t){.value_type = BSON_TYPE_TIMESTAMP};
  out->value.v_timestamp.timestamp = (uint32_t)(r->now_ms / 1000);
  // Within a second in order of time; never 0, which would mean "to be filled in".
  out->value.v_timestamp.increment = (uint32_t)(r->now_ms % 1000) + 1;
  return true;
}

// --- $bit: {and: n, or: n, xor: n}, in this order ---

static bool parse_bit(struct update_parser *p, struct update_leaf *l) {
  bson_iter_t it;
  size_t n = 0;
  if (!value_is_doc(&l->value)) {
    return error_set(p->err, ERR_BadValue,
                     "The $bit modifier is not compatible with a %s. You must pass in an embedded "
                     "document: {$bit: {field: {and/or/xor: #}}",
                     name_of(&l->value));
  }
  for (value_iter(&l->value, &it); bson_iter_next(&it); n++) {
    const char *key = bson_iter_key(&it);
    if (strcmp(key, "and") != 0 && strcmp(key, "or") != 0 && strcmp(key, "xor") != 0) {
      return error_set(p->err, ERR_BadValue,
                       "The $bit modifier only supports 'and', 'or', and 'xor', not '%s' which is an "
                       "unknown operator: {%s: %s}",
                       key, key, value_text(p->arena, bson_iter_value(&it)));
    }
    if (!BSON_ITER_HOLDS_INT32(&it) && !BSON_ITER_HOLDS_INT64(&it)) {
      return error_set(p->err, ERR_BadValue,
                       "The $bit modifier field must be an Integer(32/64 bit); a '%s' is not "
                       "supported here: {%s: %s}",
                       name_of(bson_iter_value(&it)), key, value_text(p->arena, bson_iter_value(&it)));
    }
  }
  return n || error_set(p->err, ERR_BadValue,
                        "You must pass in at least one bitwise operation. The format is: {$bit: "
                        "{field: {and/or/xor: #}}");
}

static bool apply_bit(const struct update_leaf *l, struct update_run *r, const bson_value_t *old, bson_value_t *out) {
  bool wide = old->value_type == BSON_TYPE_INT64;
  if (!wide && old->value_type != BSON_TYPE_INT32 && !value_is_missing(old)) {
    return error_set(r->err, ERR_BadValue,
                     "Cannot apply $bit to a value of non-integral type.%s has the field %s of "
                     "non-integer type %s",
                     update_document_id(r), last_part(l->path), name_of(old));
  }
  int64_t n = value_is_missing(old) ? 0 : value_i64(old);
  bson_iter_t it;
  for (value_iter(&l->value, &it); bson_iter_next(&it);) {
    int64_t by = bson_iter_as_int64(&it);
    wide |= BSON_ITER_HOLDS_INT64(&it);
    const char *key = bson_iter_key(&it);
    n = *key == 'a' ? n & by : *key == 'o' ? n | by : n ^ by;
  }
  *out = wide ? value_int64(n) : value_int32((int32_t)n);
  return true;
}

// --- $rename: a leaf at each of the two paths ---

static bool parse_rename(struct update_parser *p, struct update_leaf *l) {
  if (!value_is_string(&l->value)) {
    return error_set(p->err, ERR_BadValue, "The 'to' field for $rename must be a string: %s: %s", l->path,
                     value_text(p->arena, &l->value));
  }
  const char *to = l->value.value.v_utf8.str;
  if (strlen(to) != l->value.value.v_utf8.len) {
    return error_set(p->err, ERR_BadValue, "The 'to' field for $rename cannot contain an embedded null byte");
  }
  if (strcmp(l->path, to) == 0) {
    return error_set(p->err, ERR_BadValue, "The source and target field for $rename must differ: %s: \"%s\"", l->path,
                     to);
  }
  const char *paths[] = {l->path, to};
  for (size_t i = 0; i < 2; i++) {
    if (!strchr(paths[i], '$')) continue;
    return error_set(p->err, ERR_BadValue, "The %s field for $rename may not be dynamic: %s",
                     i ? "destination" : "source", paths[i]);
  }
  struct update_leaf *target = arena_zalloc(p->arena, sizeof *target);
  *target = (struct update_leaf){.op = &UPDATE_RENAME_TO, .path = arena_strdup(p->arena, to), .source = l->path};
  l->op = &UPDATE_RENAME_FROM;
  return update_tree_leaf(p, target->path, target);
}

// Whether an array is on the way to a path of the document before.
static bool through_array(const bson_t *doc, const char *path, struct arena *a) {
  bson_value_t v;
  for (const char *dot = strchr(path, '.'); dot; dot = strchr(dot + 1, '.')) {
    const char *prefix = arena_strndup(a, path, (size_t)(dot - path));
    if (path_get(doc, prefix, &v) && value_is_array(&v)) return true;
  }
  return false;
}

static bool apply_rename_from(const struct update_leaf *l, struct update_run *r, const bson_value_t *old,
                              bson_value_t *out) {
  if (through_array(r->doc, l->path, r->arena)) {
    return error_set(r->err, ERR_BadValue, "The source field cannot be an array element, '%s' in doc with _id: %s",
                     l->path, update_document_id(r));
  }
  *out = value_missing();
  return true;
}

static bool apply_rename_to(const struct update_leaf *l, struct update_run *r, const bson_value_t *old,
                            bson_value_t *out) {
  bson_value_t v = value_missing();
  path_get(r->doc, l->source, &v); // there, or the leaf would not be active
  if (through_array(r->doc, l->path, r->arena)) {
    return error_set(r->err, ERR_BadValue, "The destination field cannot be an array element, '%s' in doc with _id: %s",
                     l->path, update_document_id(r));
  }
  *out = v;
  return true;
}

const struct update_operator UPDATE_RENAME_FROM = {"$rename", apply_rename_from, NULL, false};
const struct update_operator UPDATE_RENAME_TO = {"$rename", apply_rename_to, NULL, true};

const struct update_operator UPDATE_FIELD_OPERATORS[] = {
    {"$set", apply_set, NULL, true},
    {"$setOnInsert", apply_set, NULL, true},
    {"$unset", apply_unset, NULL, false},
    {"$inc", apply_inc, parse_number, true},
    {"$mul", apply_mul, parse_number, true},
    {"$min", apply_min, NULL, true},
    {"$max", apply_max, NULL, true},
    {"$currentDate", apply_current_date, parse_current_date, true},
    {"$bit", apply_bit, parse_bit, true},
    {"$rename", apply_rename_from, parse_rename, false},
    {NULL},
};
