// The operators that stand under a field: one parse function and one line in the table each.
#include "common/query/match_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/bson/compare.h"
#include "common/query/type_names.h"
#include "common/query/values.h"

static struct match_node *leaf_new(struct match_parser *p, const struct match_operator *op, const char *path,
                                   const bson_value_t *arg, match_test *test) {
  struct match_node *n = match_node_new(p, op->kind, op->name, path);
  n->value = *arg;
  n->test = test;
  return n;
}

static bool parse_eq(const struct match_leaf *l) {
  struct match_node *n = match_parse_equality(l->p, l->path, l->arg);
  if (!n) return false;
  match_node_add(l->p, l->to, n);
  return true;
}

static bool parse_order(const struct match_leaf *l) {
  if (l->arg->value_type == BSON_TYPE_REGEX) {
    return error_set(l->p->err, ERR_BadValue, "Can't have RegEx as arg to predicate over field '%s'.", l->path);
  }
  if (l->arg->value_type == BSON_TYPE_UNDEFINED)
    return error_set(l->p->err, ERR_BadValue, "cannot compare to undefined");
  match_node_add(l->p, l->to, leaf_new(l->p, l->op, l->path, l->arg, match_test_order));
  return true;
}

static struct match_node *negate(struct match_parser *p, const char *path, struct match_node *child) {
  struct match_node *n = match_node_new(p, MATCH_NOT, "$not", NULL);
  n->path = path;
  match_node_add(p, n, child);
  return n;
}

static bool parse_ne(const struct match_leaf *l) {
  if (l->arg->value_type == BSON_TYPE_REGEX)
    return error_set(l->p->err, ERR_BadValue, "Can't have regex as arg to $ne.");
  struct match_node *eq = match_parse_equality(l->p, l->path, l->arg);
  if (!eq) return false;
  match_node_add(l->p, l->to, negate(l->p, l->path, eq));
  return true;
}

// --- regular expressions ---

static bool add_regex(struct match_parser *p, struct match_node *n, const char *pattern, size_t len,
                      const char *options) {
  struct regex *r = regex_compile(p->arena, pattern, len, options, p->err);
  if (!r) return false;
  bson_value_t v = {.value_type = BSON_TYPE_REGEX};
  v.value.v_regex.regex = arena_strndup(p->arena, pattern, len);
  v.value.v_regex.options = arena_strdup(p->arena, options);
  n->regexes[n->n_regexes] = r;
  n->regex_values[n->n_regexes++] = v;
  return true;
}

static void room_for_regexes(struct match_parser *p, struct match_node *n, size_t most) {
  n->regexes = arena_zalloc(p->arena, most * sizeof(struct regex *));
  n->regex_values = arena_zalloc(p->arena, most * sizeof *n->regex_values);
}

// {a: /re/i} has no context; {a: {$regex: "re" or /re/, $options: "i"}} has the whole document.
static bool parse_regex(const struct match_leaf *l) {
  const char *pattern, *options = "";
  size_t len;
  if (l->arg->value_type == BSON_TYPE_REGEX) {
    pattern = l->arg->value.v_regex.regex;
    len = strlen(pattern);
    options = l->arg->value.v_regex.options;
  } else if (value_is_string(l->arg)) {
    pattern = l->arg->value.v_utf8.str;
    len = l->arg->value.v_utf8.len;
    if (memchr(pattern, 0, len)) {
      return error_set(l->p->err, ERR_BadValue, "Regular expression cannot contain an embedded null byte");
    }
  } else {
    return error_set(l->p->err, ERR_BadValue, "$regex has to be a string");
  }
  bson_iter_t it;
  if (l->context && value_iter(l->context, &it) && bson_iter_find(&it, "$options")) {
    if (!BSON_ITER_HOLDS_UTF8(&it)) return error_set(l->p->err, ERR_BadValue, "$options has to be a string");
    if (options[0]) return error_set(l->p->err, 51075, "options set in both $regex and $options");
    options = bson_iter_utf8(&it, NULL);
  }
  struct match_node *n = leaf_new(l->p, l->op, l->path, l->arg, match_test_regex);
  room_for_regexes(l->p, n, 1);
  if (!add_regex(l->p, n, pattern, len, options)) return false;
  match_node_add(l->p, l->to, n);
  return true;
}

bool match_parse_regex(struct match_parser *p, const char *path, const bson_value_t *re, struct match_node *to) {
  struct match_leaf l = {p, match_operator_find("$regex"), path, re, NULL, to};
  return parse_regex(&l);
}

// $regex does the work, wherever it stands; here it is only made sure that there is one.
static bool parse_options(const struct match_leaf *l) {
  bson_iter_t it;
  if (value_iter(l->context, &it) && bson_iter_find(&it, "$regex")) return true;
  return error_set(l->p->err, ERR_BadValue, "$options needs a $regex");
}

static bool parse_not(const struct match_leaf *l) {
  struct match_node *inside = match_node_new(l->p, MATCH_AND, "$and", NULL);
  if (l->arg->value_type == BSON_TYPE_REGEX) {
    if (!match_parse_regex(l->p, l->path, l->arg, inside)) return false;
  } else {
    bson_iter_t it;
    if (!value_is_doc(l->arg)) return error_set(l->p->err, ERR_BadValue, "$not needs a regex or a document");
    if (value_iter(l->arg, &it) && !bson_iter_next(&it))
      return error_set(l->p->err, ERR_BadValue, "$not cannot be empty");
    if (!match_parse_field(l->p, l->path, l->arg, inside)) return false;
  }
  match_node_add(l->p, l->to, negate(l->p, l->path, inside->n == 1 ? inside->children[0] : inside));
  return true;
}

// --- $in, $nin, $all ---

static int compare_operands(const void *a, const void *b) {
  return value_compare(a, b);
}

static struct match_node *in_node(const struct match_leaf *l) {
  bson_iter_t it;
  size_t entries = 0;
  if (!value_is_array(l->arg)) {
    error_set(l->p->err, ERR_BadValue, "%s needs an array", l->op->name);
    return NULL;
  }
  for (value_iter(l->arg, &it); bson_iter_next(&it);) entries++;
  struct match_node *n = match_node_new(l->p, MATCH_IN, "$in", l->path);
  n->value = *l->arg;
  n->test = match_test_in;
  n->in = arena_alloc(l->p->arena, entries * sizeof *n->in);
  room_for_regexes(l->p, n, entries);
  for (value_iter(l->arg, &it); bson_iter_next(&it);) {
    const bson_value_t *v = bson_iter_value(&it);
    if (match_is_operator_doc(v)) {
      error_set(l->p->err, ERR_BadValue, "cannot nest $ under %s", l->op->name);
      return NULL;
    }
    if (v->value_type == BSON_TYPE_UNDEFINED) {
      error_set(l->p->err, ERR_BadValue, "InMatchExpression equality cannot be undefined");
      return NULL;
    }
    if (v->value_type == BSON_TYPE_REGEX) {
      const char *pattern = v->value.v_regex.regex;
      if (!add_regex(l->p, n, pattern, strlen(pattern), v->value.v_regex.options)) return NULL;
      continue;
    }
    n->in_null |= v->value_type == BSON_TYPE_NULL;
    n->in[n->n_in++] = *v;
  }
  qsort(n->in, n->n_in, sizeof *n->in, compare_operands);
  return n;
}

static bool parse_in(const struct match_leaf *l) {
  struct match_node *n = in_node(l);
  if (!n) return false;
  match_node_add(l->p, l->to, n);
  return true;
}

static bool parse_nin(const struct match_leaf *l) {
  struct match_node *n = in_node(l);
  if (!n) return false;
  match_node_add(l->p, l->to, negate(l->p, l->path, n));
  return true;
}

static bool first_key_is(const bson_value_t *v, const char *name) {
  bson_iter_t it;
  return value_is_doc(v) && value_iter(v, &it) && bson_iter_next(&it) && strcmp(bson_iter_key(&it), name) == 0;
}

static bool parse_elem_match(const struct match_leaf *l);

// One entry of $all: an equality, a regex, or (when the first is one) an $elemMatch.
static bool parse_all_entry(struct match_parser *p, const char *path, const bson_value_t *v, bool elem_match,
                            struct match_node *to) {
  bson_iter_t it;
  if (elem_match) {
    if (!first_key_is(v, "$elemMatch")) {
      return error_set(p->err, ERR_BadValue, "$all/$elemMatch has to be consistent");
    }
    if (!value_iter(v, &it) || !bson_iter_next(&it)) return false;
    struct match_leaf l = {p, match_operator_find("$elemMatch"), path, bson_iter_value(&it), v, to};
    return parse_elem_match(&l);
  }
  if (v->value_type == BSON_TYPE_REGEX) return match_parse_regex(p, path, v, to);
  if (value_is_doc(v) && value_iter(v, &it) && bson_iter_next(&it) && match_operator_find(bson_iter_key(&it))) {
    return error_set(p->err, ERR_BadValue, "no $ expressions in $all");
  }
  struct match_node *eq = match_parse_equality(p, path, v);
  if (!eq) return false;
  match_node_add(p, to, eq);
  return true;
}

static bool parse_all(const struct match_leaf *l) {
  if (!value_is_array(l->arg)) return error_set(l->p->err, ERR_BadValue, "$all needs an array");
  bson_iter_t it;
  size_t entries = 0;
  bool elem_match = false;
  for (value_iter(l->arg, &it); bson_iter_next(&it); entries++) {
    const bson_value_t *v = bson_iter_value(&it);
    if (entries == 0) elem_match = first_key_is(v, "$elemMatch");
    if (!parse_all_entry(l->p, l->path, v, elem_match, l->to)) return false;
  }
  if (entries == 0) match_node_add(l->p, l->to, match_node_new(l->p, MATCH_FALSE, "$alwaysFalse", NULL));
  return true;
}

static bool parse_elem_match(const struct match_leaf *l) {
  if (!value_is_doc(l->arg)) return error_set(l->p->err, ERR_BadValue, "$elemMatch needs an Object");
  bson_iter_t it;
  bool outer = l->p->sub_document;
  l->p->sub_document = true;
  // {$elemMatch: {$gt: 1}} looks at the elements themselves; {$elemMatch: {$or: [..]}} and fields look into them.
  bool of_values = match_is_operator_doc(l->arg) && value_iter(l->arg, &it) && bson_iter_next(&it) &&
                   !match_is_pathless_operator(bson_iter_key(&it));
  struct match_node *n = match_node_new(l->p, of_values ? MATCH_ELEM_VALUE : MATCH_ELEM_OBJECT, l->op->name, l->path);
  n->value = *l->arg;
  bool ok;
  if (of_values) {
    ok = match_parse_field(l->p, "", l->arg, n);
  } else {
    struct match_node *child = match_parse_object(l->p, l->arg);
    ok = child != NULL;
    if (ok) match_node_add(l->p, n, child);
  }
  l->p->sub_document = outer;
  if (ok) match_node_add(l->p, l->to, n);
  return ok;
}

// --- the rest ---

static bool parse_exists(const struct match_leaf *l) {
  struct match_node *n = leaf_new(l->p, l->op, l->path, l->arg, match_test_exists);
  n->value = value_bool(true);
  match_node_add(l->p, l->to, value_truthy(l->arg) ? n : negate(l->p, l->path, n));
  return true;
}

static bool add_type(struct match_parser *p, struct match_node *n, const bson_value_t *v) {
  bson_type_t type;
  int64_t number;
  if (value_is_string(v)) {
    if (value_equals_text(v, "number")) {
      n->types |= type_bits_number();
    } else if (type_from_name(v->value.v_utf8.str, &type)) {
      n->types |= type_bit(type);
    } else {
      return error_set(p->err, ERR_BadValue, "Unknown type name alias: %s", v->value.v_utf8.str);
    }
    return true;
  }
  if (!value_is_number(v))
    return error_set(p->err, ERR_TypeMismatch, "type must be represented as a number or a string");
  if (!value_is_integral(v, &number) || !type_from_number(number, &type)) {
    return error_set(p->err, ERR_BadValue, "Invalid numerical type code: %s", value_text(p->arena, v));
  }
  n->types |= type_bit(type);
  return true;
}

static bool parse_type(const struct match_leaf *l) {
  struct match_node *n = leaf_new(l->p, l->op, l->path, l->arg, match_test_type);
  if (value_is_array(l->arg)) {
    bson_iter_t it;
    for (value_iter(l->arg, &it); bson_iter_next(&it);) {
      if (!add_type(l->p, n, bson_iter_value(&it))) return false;
    }
    if (!n->types) return error_set(l->p->err, ERR_FailedToParse, "%s must match at least one type", l->path);
  } else if (!add_type(l->p, n, l->arg)) {
    return false;
  }
  match_node_add(l->p, l->to, n);
  return true;
}

// An operand of $mod: truncated to an int64; NaN and what does not fit are errors.
static bool mod_operand(struct match_parser *p, const bson_value_t *v, const char *which, int64_t *out) {
  if (!value_is_number(v)) return error_set(p->err, ERR_BadValue, "malformed mod, %s not a number", which);
  double d = value_double(v);
  if (isnan(d) || isinf(d) || fabs(d) >= 9.3e18) {
    return error_set(p->err, ERR_BadValue,
                     "malformed mod, %s value is invalid :: caused by :: Unable to coerce %s to a "
                     "64-bit integer",
                     which, value_text(p->arena, v));
  }
  *out = value_i64(v);
  return true;
}

static bool parse_mod(const struct match_leaf *l) {
  bson_iter_t it;
  size_t n_operands = 0;
  bson_value_t operands[2];
  if (!value_is_array(l->arg)) return error_set(l->p->err, ERR_BadValue, "malformed mod, needs to be an array");
  for (value_iter(l->arg, &it); bson_iter_next(&it); n_operands++) {
    if (n_operands == 2) return error_set(l->p->err, ERR_BadValue, "malformed mod, too many elements");
    operands[n_operands] = *bson_iter_value(&it);
  }
  if (n_operands < 2) return error_set(l->p->err, ERR_BadValue, "malformed mod, not enough elements");
  struct match_node *n = leaf_new(l->p, l->op, l->path, l->arg, match_test_mod);
  if (!mod_operand(l->p, &operands[0], "divisor", &n->divisor)) return false;
  if (!mod_operand(l->p, &operands[1], "remainder", &n->remainder)) return false;
  if (n->divisor == 0) return error_set(l->p->err, ERR_BadValue, "divisor cannot be 0");
  match_node_add(l->p, l->to, n);
  return true;
}

static bool parse_size(const struct match_leaf *l) {
  struct match_node *n = leaf_new(l->p, l->op, l->path, l->arg, match_test_size);
  if (!value_is_number(l->arg)) {
    return error_set(l->p->err, ERR_BadValue, "Failed to parse $size. Expected a number in: $size: %s",
                     value_text(l->p->arena, l->arg));
  }
  if (!value_is_integral(l->arg, &n->size)) {
    return error_set(l->p->err, ERR_BadValue, "Failed to parse $size. Expected an integer: $size: %s",
                     value_text(l->p->arena, l->arg));
  }
  if (n->size < 0) {
    return error_set(l->p->err, ERR_BadValue, "Failed to parse $size. Expected a non-negative number in: $size: %s",
                     value_text(l->p->arena, l->arg));
  }
  match_node_add(l->p, l->to, n);
  return true;
}

static bool refuse(const struct match_leaf *l) {
  return error_set(l->p->err, ERR_CommandNotSupported, "%s is not supported", l->op->name);
}

static const struct match_operator OPERATORS[] = {
    {"$eq", MATCH_EQ, parse_eq},
    {"$ne", MATCH_NOT, parse_ne},
    {"$gt", MATCH_GT, parse_order},
    {"$gte", MATCH_GTE, parse_order},
    {"$lt", MATCH_LT, parse_order},
    {"$lte", MATCH_LTE, parse_order},
    {"$in", MATCH_IN, parse_in},
    {"$nin", MATCH_NOT, parse_nin},
    {"$not", MATCH_NOT, parse_not},
    {"$exists", MATCH_EXISTS, parse_exists},
    {"$type", MATCH_TYPE, parse_type},
    {"$regex", MATCH_REGEX, parse_regex},
    {"$options", MATCH_REGEX, parse_options},
    {"$mod", MATCH_MOD, parse_mod},
    {"$all", MATCH_AND, parse_all},
    {"$elemMatch", MATCH_ELEM_OBJECT, parse_elem_match},
    {"$size", MATCH_SIZE, parse_size},
    {"$bitsAllSet", MATCH_BITS, match_parse_bits},
    {"$bitsAllClear", MATCH_BITS, match_parse_bits},
    {"$bitsAnySet", MATCH_BITS, match_parse_bits},
    {"$bitsAnyClear", MATCH_BITS, match_parse_bits},
    {"$geoWithin", MATCH_TRUE, refuse},
    {"$geoIntersects", MATCH_TRUE, refuse},
    {"$near", MATCH_TRUE, refuse},
    {"$nearSphere", MATCH_TRUE, refuse},
    {"$within", MATCH_TRUE, refuse},
};

const struct match_operator *match_operator_find(const char *name) {
  for (size_t i = 0; i < sizeof OPERATORS / sizeof *OPERATORS; i++) {
    if (strcmp(OPERATORS[i].name, name) == 0) return &OPERATORS[i];
  }
  return NULL;
}
