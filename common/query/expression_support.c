// Helpers of the operators' functions: arguments, truth, arrays.
#include "common/query/expression_internal.h"

bool expr_argument(const struct expression *e, size_t i, struct evaluation *v, bson_value_t *out) {
  *out = value_missing();
  return i >= e->n || !e->args[i] || e->args[i]->eval(e->args[i], v, out);
}

bool expr_evaluate_all(const struct expression *e, struct evaluation *v, bson_value_t **out) {
  *out = arena_alloc(v->scratch, e->n * sizeof **out);
  for (size_t i = 0; i < e->n; i++) {
    if (!expr_argument(e, i, v, &(*out)[i])) return false;
  }
  return true;
}

bool expr_account(struct evaluation *v, const bson_value_t *made) {
  if (value_is_string(made))
    v->produced += made->value.v_utf8.len;
  else if (value_is_doc(made) || value_is_array(made))
    v->produced += made->value.v_doc.data_len;
  return v->produced <= EXPR_MAX_BYTES ||
         error_set(v->err, ERR_ExceededMemoryLimit, "an expression would use too much memory, more than %d bytes",
                   EXPR_MAX_BYTES);
}

bool expr_truthy(const bson_value_t *v) {
  return !value_is_nullish(v) && value_truthy(v);
}

void array_begin(struct array_builder *b, struct arena *a) {
  b->doc = arena_bson(a);
  b->n = 0;
}

void array_add(struct array_builder *b, const bson_value_t *v) {
  char text[16];
  const char *key;
  bson_uint32_to_string(b->n++, &key, text, sizeof text);
  bson_value_t null = value_null();
  doc_append_value(b->doc, key, value_is_missing(v) ? &null : v);
}

bson_value_t array_end(struct array_builder *b) {
  return value_array(b->doc);
}

bson_value_t *array_elements(struct arena *a, const bson_value_t *array, size_t *n) {
  bson_iter_t it;
  *n = 0;
  for (value_iter(array, &it); bson_iter_next(&it);) (*n)++;
  bson_value_t *out = arena_alloc(a, *n * sizeof *out);
  size_t i = 0;
  for (value_iter(array, &it); bson_iter_next(&it);) out[i++] = *bson_iter_value(&it);
  return out;
}
