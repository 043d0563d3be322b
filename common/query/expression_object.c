// Operators on documents: $mergeObjects, $getField, $setField, $unsetField, $objectToArray, $arrayToObject; $literal;
// and the hash of hashed shard keys.
#include <string.h>

#include "common/bson/hash.h"
#include "common/query/expression_families.h"
#include "common/query/type_names.h"

static const char *name_of(const bson_value_t *v) {
  return type_name(v->value_type);
}

static bool parse_literal(struct expr_parser *p, struct expression *e, const bson_value_t *spec) {
  *e = *expr_constant(p->arena, value_copy(p->arena, spec));
  return true;
}

// --- documents under construction: setting a field keeps its place ---

// Appends `doc` to `to` with field `name` set to v; removed when v is missing; appended when new.
static void append_with(bson_t *to, const bson_value_t *doc, const char *name, const bson_value_t *v) {
  bson_iter_t it;
  bool found = false;
  for (value_iter(doc, &it); bson_iter_next(&it);) {
    if (strcmp(bson_iter_key(&it), name) != 0) {
      doc_append_value(to, bson_iter_key(&it), bson_iter_value(&it));
    } else if (!found) {
      found = true;
      if (!value_is_missing(v)) doc_append_value(to, name, v);
    }
  }
  if (!found && !value_is_missing(v)) doc_append_value(to, name, v);
}

void expr_merge_into(struct arena *a, bson_value_t *merged, const bson_value_t *by) {
  bson_iter_t it;
  // Fields that are there already keep their place; so does their order.
  bson_t *out = arena_bson(a);
  bson_t other;
  bson_value_t v;
  doc_view(&other, by->value.v_doc.data, by->value.v_doc.data_len);
  for (value_iter(merged, &it); bson_iter_next(&it);) {
    const char *name = bson_iter_key(&it);
    doc_append_value(out, name, doc_value(&other, name, &v) ? &v : bson_iter_value(&it));
  }
  bson_t before;
  doc_view(&before, merged->value.v_doc.data, merged->value.v_doc.data_len);
  for (value_iter(by, &it); bson_iter_next(&it);) {
    if (!doc_has(&before, bson_iter_key(&it))) doc_append_value(out, bson_iter_key(&it), bson_iter_value(&it));
  }
  *merged = value_doc(out);
}

static bool call_merge_objects(const struct expr_call *c, bson_value_t *out) {
  *out = value_doc(arena_bson(c->v->scratch));
  // One argument that is an array is merged element by element.
  const bson_value_t *values = c->args;
  size_t n = c->n;
  if (n == 1 && value_is_array(&values[0])) values = array_elements(c->v->scratch, &c->args[0], &n);
  for (size_t i = 0; i < n; i++) {
    if (value_is_nullish(&values[i])) continue;
    if (!value_is_doc(&values[i])) {
      return error_set(c->v->err, 40400, "$mergeObjects requires object inputs, but input %s is of type %s",
                       value_text(c->v->scratch, &values[i]), name_of(&values[i]));
    }
    expr_merge_into(c->v->scratch, out, &values[i]);
  }
  return true;
}

// --- $getField, $setField, $unsetField ---

// The name of a field as these operators take it: a constant string, which may contain dots and dollars.
static bool constant_name(struct expr_parser *p, struct expression *e, const bson_value_t *spec,
                          struct expression **out) {
  if (value_is_string(spec) && spec->value.v_utf8.len && spec->value.v_utf8.str[0] == '$') {
    return error_set(p->err, 5654600,
                     "A field path reference which is not allowed in this context. Did you mean {$literal: '%s'}?",
                     spec->value.v_utf8.str);
  }
  *out = expr_parse(p, spec);
  if (!*out) return false;
  if (expr_is_constant(*out) && value_is_string(&(*out)->constant)) return true;
  return error_set(p->err, 5654602, "%s requires 'field' to evaluate to a constant, type String", e->op->name);
}

// Arguments: field, input, value. $getField: "name" is short for {field: "name", input: "$$CURRENT"}.
static bool parse_field_operator(struct expr_parser *p, struct expression *e, const bson_value_t *spec) {
  bson_iter_t it;
  bool get = strcmp(e->op->name, "$getField") == 0;
  bson_value_t current = value_str("$$CURRENT");
  e->n = 3;
  e->args = arena_zalloc(p->arena, e->n * sizeof(struct expression *));
  bool named = value_is_doc(spec) && value_iter(spec, &it) && bson_iter_next(&it) && bson_iter_key(&it)[0] != '$';
  if (!named && !get) return error_set(p->err, 4161100, "%s only supports an object as its argument", e->op->name);
  if (!named) {
    e->args[1] = expr_parse(p, &current);
    return e->args[1] && constant_name(p, e, spec, &e->args[0]);
  }
  for (value_iter(spec, &it); bson_iter_next(&it);) {
    const char *key = bson_iter_key(&it);
    const bson_value_t *v = bson_iter_value(&it);
    if (strcmp(key, "field") == 0) {
      if (!constant_name(p, e, v, &e->args[0])) return false;
      continue;
    }
    bool input = strcmp(key, "input") == 0, value = strcmp(key, "value") == 0 && strcmp(e->op->name, "$setField") == 0;
    if (!input && !value) return error_set(p->err, 3041701, "%s found an unknown argument: %s", e->op->name, key);
    e->args[value ? 2 : 1] = expr_parse(p, v);
    if (!e->args[value ? 2 : 1]) return false;
  }
  if (!e->args[0]) return error_set(p->err, 3041702, "%s requires 'field' to be specified", e->op->name);
  if (!e->args[1]) return error_set(p->err, 3041703, "%s requires 'input' to be specified", e->op->name);
  if (!e->args[2] && strcmp(e->op->name, "$setField") == 0) {
    return error_set(p->err, 4161103, "$setField requires 'value' to be specified");
  }
  return true;
}

static bool call_get_field(const struct expr_call *c, bson_value_t *out) {
  bson_t doc;
  const bson_value_t *input = &c->args[1];
  *out = value_is_nullish(input) && !value_is_missing(input) ? value_null() : value_missing();
  if (!value_is_doc(input)) return true;
  doc_view(&doc, input->value.v_doc.data, input->value.v_doc.data_len);
  if (!doc_value(&doc, c->args[0].value.v_utf8.str, out)) *out = value_missing();
  return true;
}

static bool call_set_field(const struct expr_call *c, bson_value_t *out) {
  *out = value_null();
  if (value_is_nullish(&c->args[1])) return true;
  if (!value_is_doc(&c->args[1])) {
    return error_set(c->v->err, 4161105, "%s requires 'input' to evaluate to type Object", c->e->op->name);
  }
  bson_t *doc = arena_bson(c->v->scratch);
  append_with(doc, &c->args[1], c->args[0].value.v_utf8.str, &c->args[2]);
  *out = value_doc(doc);
  return true;
}

// --- $objectToArray, $arrayToObject ---

static bool call_object_to_array(const struct expr_call *c, bson_value_t *out) {
  *out = value_null();
  if (value_is_nullish(&c->args[0])) return true;
  if (!value_is_doc(&c->args[0])) {
    return error_set(c->v->err, 40390, "$objectToArray requires a document input, found: %s", name_of(&c->args[0]));
  }
  struct array_builder list;
  bson_iter_t it;
  array_begin(&list, c->v->scratch);
  for (value_iter(&c->args[0], &it); bson_iter_next(&it);) {
    bson_t *pair = arena_bson(c->v->scratch);
    bson_append_utf8(pair, "k", 1, bson_iter_key(&it), -1);
    doc_append_value(pair, "v", bson_iter_value(&it));
    bson_value_t v = value_doc(pair);
    array_add(&list, &v);
  }
  *out = array_end(&list);
  return true;
}

// An entry of $arrayToObject: [k, v] or {k: .., v: ..}.
static bool pair_of(const struct expr_call *c, const bson_value_t *entry, bson_value_t *k, bson_value_t *v) {
  size_t n;
  if (value_is_array(entry)) {
    const bson_value_t *two = array_elements(c->v->scratch, entry, &n);
    if (n != 2)
      return error_set(c->v->err, 40397, "$arrayToObject requires an array of size 2 arrays,found array of size: %zu",
                       n);
    *k = two[0];
    *v = two[1];
  } else if (value_is_doc(entry)) {
    bson_t doc;
    doc_view(&doc, entry->value.v_doc.data, entry->value.v_doc.data_len);
    if (bson_count_keys(&doc) != 2 || !doc_value(&doc, "k", k) || !doc_value(&doc, "v", v)) {
      return error_set(c->v->err, 40392,
                       "$arrayToObject requires an object keys of 'k' and 'v'. Found incorrect number of keys:%u",
                       bson_count_keys(&doc));
    }
  } else {
    return error_set(c->v->err, 40398, "Unrecognised input type format for $arrayToObject: %s", name_of(entry));
  }
  if (!value_is_string(k)) {
    return error_set(c->v->err, 40394,
                     "$arrayToObject requires an object with keys 'k' and 'v', where the value of 'k' "
                     "must be of type string. Found type: %s",
                     name_of(k));
  }
  if (strlen(k->value.v_utf8.str) != k->value.v_utf8.len) {
    return error_set(c->v->err, 4940400, "Key field cannot contain an embedded null byte");
  }
  return true;
}

static bool call_array_to_object(const struct expr_call *c, bson_value_t *out) {
  *out = value_null();
  if (value_is_nullish(&c->args[0])) return true;
  if (!value_is_array(&c->args[0])) {
    return error_set(c->v->err, 40386, "$arrayToObject requires an array input, found: %s", name_of(&c->args[0]));
  }
  bson_iter_t it;
  bson_t *doc = arena_bson(c->v->scratch);
  bson_value_t k, v;
  for (value_iter(&c->args[0], &it); bson_iter_next(&it);) {
    if (!pair_of(c, bson_iter_value(&it), &k, &v)) return false;
    if (doc_has(doc, k.value.v_utf8.str)) { // of repeated keys the last counts
      bson_t *with = arena_bson(c->v->scratch);
      bson_value_t before = value_doc(doc);
      append_with(with, &before, k.value.v_utf8.str, &v);
      doc = with;
    } else {
      doc_append_value(doc, k.value.v_utf8.str, &v);
    }
  }
  *out = value_doc(doc);
  return true;
}

static bool call_to_hashed_index_key(const struct expr_call *c, bson_value_t *out) {
  *out = value_int64(bson_hash64(value_is_missing(&c->args[0]) ? NULL : &c->args[0], 0));
  return true;
}

const struct expr_operator EXPR_OBJECT[] = {
    {"$literal", NULL, 1, 1, .parse = parse_literal},
    {"$const", NULL, 1, 1, .parse = parse_literal},
    {"$mergeObjects", NULL, 0, EXPR_VARIADIC, .call = call_merge_objects},
    {"$getField", NULL, 1, 1, .call = call_get_field, .parse = parse_field_operator},
    {"$setField", NULL, 1, 1, .call = call_set_field, .parse = parse_field_operator},
    {"$unsetField", NULL, 1, 1, .call = call_set_field, .parse = parse_field_operator},
    {"$objectToArray", NULL, 1, 1, .call = call_object_to_array},
    {"$arrayToObject", NULL, 1, 1, .call = call_array_to_object},
    {"$toHashedIndexKey", NULL, 1, 1, .call = call_to_hashed_index_key},
    {NULL},
};
