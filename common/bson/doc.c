// Readers, writers and texts of BSON documents.
#include "common/bson/doc.h"

#include <math.h>
#include <string.h>

void doc_view(bson_t *view, const uint8_t *data, size_t len) {
  if (!bson_init_static(view, data, len)) bson_init(view);
}

bool doc_get(const bson_t *doc, const char *name, bson_iter_t *it) {
  return doc_get_n(doc, name, strlen(name), it);
}

bool doc_has(const bson_t *doc, const char *name) {
  bson_iter_t it;
  return doc_get(doc, name, &it);
}

bool doc_value(const bson_t *doc, const char *name, bson_value_t *out) {
  bson_iter_t it;
  if (!doc_get(doc, name, &it)) return false;
  *out = *bson_iter_value(&it);
  return true;
}

bool iter_is_number(const bson_iter_t *it) {
  return BSON_ITER_HOLDS_NUMBER(it) || BSON_ITER_HOLDS_DECIMAL128(it);
}

int64_t iter_i64(const bson_iter_t *it) {
  bson_iter_t copy = *it;
  return value_i64(bson_iter_value(&copy));
}

void iter_doc(bson_t *view, const bson_iter_t *it) {
  const uint8_t *data = NULL;
  uint32_t len = 0;
  if (BSON_ITER_HOLDS_ARRAY(it))
    bson_iter_array(it, &len, &data);
  else if (BSON_ITER_HOLDS_DOCUMENT(it))
    bson_iter_document(it, &len, &data);
  if (!data || !bson_init_static(view, data, len)) bson_init(view);
}

bool value_is_number(const bson_value_t *v) {
  return v->value_type == BSON_TYPE_INT32 || v->value_type == BSON_TYPE_INT64 || v->value_type == BSON_TYPE_DOUBLE ||
         v->value_type == BSON_TYPE_DECIMAL128;
}

static double decimal_to_double(const bson_decimal128_t *d) {
  char text[BSON_DECIMAL128_STRING];
  bson_decimal128_to_string(d, text);
  if (!strcmp(text, "Infinity")) return INFINITY;
  if (!strcmp(text, "-Infinity")) return -INFINITY;
  if (!strcmp(text, "NaN")) return NAN;
  return strtod(text, NULL);
}

double value_double(const bson_value_t *v) {
  switch (v->value_type) {
  case BSON_TYPE_INT32: return v->value.v_int32;
  case BSON_TYPE_INT64: return (double)v->value.v_int64;
  case BSON_TYPE_DOUBLE: return v->value.v_double;
  case BSON_TYPE_DECIMAL128: return decimal_to_double(&v->value.v_decimal128);
  default: return 0;
  }
}

static int64_t clamp_double(double d) {
  if (isnan(d)) return 0;
  if (d >= 9223372036854775808.0) return INT64_MAX;
  if (d < -9223372036854775808.0) return INT64_MIN;
  return (int64_t)d;
}

int64_t value_i64(const bson_value_t *v) {
  switch (v->value_type) {
  case BSON_TYPE_INT32: return v->value.v_int32;
  case BSON_TYPE_INT64: return v->value.v_int64;
  case BSON_TYPE_BOOL: return v->value.v_bool;
  case BSON_TYPE_DATE_TIME: return v->value.v_datetime;
  default: return value_is_number(v) ? clamp_double(value_double(v)) : 0;
  }
}

bool value_is_integral(const bson_value_t *v, int64_t *out) {
  if (v->value_type == BSON_TYPE_INT32 || v->value_type == BSON_TYPE_INT64) {
    *out = value_i64(v);
    return true;
  }
  if (!value_is_number(v)) return false;
  double d = value_double(v);
  if (isnan(d) || d != trunc(d) || d >= 9223372036854775808.0 || d < -9223372036854775808.0) return false;
  *out = (int64_t)d;
  return true;
}

bool value_truthy(const bson_value_t *v) {
  switch (v->value_type) {
  case BSON_TYPE_EOD:
  case BSON_TYPE_NULL:
  case BSON_TYPE_UNDEFINED: return false;
  case BSON_TYPE_BOOL: return v->value.v_bool;
  case BSON_TYPE_INT32: return v->value.v_int32 != 0;
  case BSON_TYPE_INT64: return v->value.v_int64 != 0;
  case BSON_TYPE_DOUBLE:
  case BSON_TYPE_DECIMAL128: return value_double(v) != 0;
  default: return true;
  }
}

int64_t doc_i64(const bson_t *doc, const char *name, int64_t otherwise) {
  bson_iter_t it;
  return doc_get(doc, name, &it) && iter_is_number(&it) ? iter_i64(&it) : otherwise;
}

double doc_double(const bson_t *doc, const char *name, double otherwise) {
  bson_value_t v;
  return doc_value(doc, name, &v) && value_is_number(&v) ? value_double(&v) : otherwise;
}

bool doc_bool(const bson_t *doc, const char *name, bool otherwise) {
  bson_value_t v;
  return doc_value(doc, name, &v) ? value_truthy(&v) : otherwise;
}

const char *doc_str(const bson_t *doc, const char *name, const char *otherwise) {
  bson_iter_t it;
  return doc_get(doc, name, &it) && BSON_ITER_HOLDS_UTF8(&it) ? bson_iter_utf8(&it, NULL) : otherwise;
}

bool doc_doc(const bson_t *doc, const char *name, bson_t *view) {
  bson_iter_t it;
  if (!doc_get(doc, name, &it) || !(BSON_ITER_HOLDS_DOCUMENT(&it) || BSON_ITER_HOLDS_ARRAY(&it))) return false;
  iter_doc(view, &it);
  return true;
}

bool doc_oid(const bson_t *doc, const char *name, bson_oid_t *oid) {
  bson_iter_t it;
  if (!doc_get(doc, name, &it) || !BSON_ITER_HOLDS_OID(&it)) return false;
  bson_oid_copy(bson_iter_oid(&it), oid);
  return true;
}

bool doc_uuid(const bson_t *doc, const char *name, uint8_t uuid[16]) {
  bson_iter_t it;
  if (!doc_get(doc, name, &it) || !BSON_ITER_HOLDS_BINARY(&it)) return false;
  bson_subtype_t subtype;
  uint32_t len;
  const uint8_t *data;
  bson_iter_binary(&it, &subtype, &len, &data);
  if (subtype != BSON_SUBTYPE_UUID || len != 16) return false;
  memcpy(uuid, data, 16);
  return true;
}

bool doc_timestamp(const bson_t *doc, const char *name, uint64_t *ts) {
  bson_iter_t it;
  if (!doc_get(doc, name, &it) || !BSON_ITER_HOLDS_TIMESTAMP(&it)) return false;
  uint32_t t, i;
  bson_iter_timestamp(&it, &t, &i);
  *ts = (uint64_t)t << 32 | i;
  return true;
}

bson_value_t value_null(void) {
  return (bson_value_t){.value_type = BSON_TYPE_NULL};
}

bson_value_t value_bool(bool b) {
  return (bson_value_t){.value_type = BSON_TYPE_BOOL, .value.v_bool = b};
}

bson_value_t value_int32(int32_t n) {
  return (bson_value_t){.value_type = BSON_TYPE_INT32, .value.v_int32 = n};
}

bson_value_t value_int64(int64_t n) {
  return (bson_value_t){.value_type = BSON_TYPE_INT64, .value.v_int64 = n};
}

bson_value_t value_number(int64_t n) {
  return n >= INT32_MIN && n <= INT32_MAX ? value_int32((int32_t)n) : value_int64(n);
}

bson_value_t value_real(double d) {
  return (bson_value_t){.value_type = BSON_TYPE_DOUBLE, .value.v_double = d};
}

// libbson's values have non-const pointers; borrowed ones are never written through.
static void *unconst(const void *p) {
  union {
    const void *in;
    void *out;
  } u = {.in = p};
  return u.out;
}

bson_value_t value_str(const char *s) {
  return (bson_value_t){.value_type = BSON_TYPE_UTF8, .value.v_utf8 = {.str = unconst(s), .len = (uint32_t)strlen(s)}};
}

static bson_value_t value_of(bson_type_t type, const bson_t *doc) {
  return (bson_value_t){.value_type = type, .value.v_doc = {.data = unconst(bson_get_data(doc)), .data_len = doc->len}};
}

bson_value_t value_doc(const bson_t *doc) {
  return value_of(BSON_TYPE_DOCUMENT, doc);
}

bson_value_t value_array(const bson_t *doc) {
  return value_of(BSON_TYPE_ARRAY, doc);
}

const bson_t *doc_copy(struct arena *a, const bson_t *doc) {
  return arena_bson_copy(a, bson_get_data(doc), doc->len);
}

bson_value_t value_copy(struct arena *a, const bson_value_t *v) {
  bson_value_t c = *v;
  switch (v->value_type) {
  case BSON_TYPE_UTF8: c.value.v_utf8.str = arena_strndup(a, v->value.v_utf8.str, v->value.v_utf8.len); break;
  case BSON_TYPE_DOCUMENT:
  case BSON_TYPE_ARRAY: c.value.v_doc.data = arena_memdup(a, v->value.v_doc.data, v->value.v_doc.data_len); break;
  case BSON_TYPE_BINARY:
    c.value.v_binary.data = arena_memdup(a, v->value.v_binary.data, v->value.v_binary.data_len);
    break;
  case BSON_TYPE_REGEX:
    c.value.v_regex.regex = arena_strdup(a, v->value.v_regex.regex);
    c.value.v_regex.options = arena_strdup(a, v->value.v_regex.options);
    break;
  case BSON_TYPE_DBPOINTER:
    c.value.v_dbpointer.collection =
        arena_strndup(a, v->value.v_dbpointer.collection, v->value.v_dbpointer.collection_len);
    break;
  case BSON_TYPE_CODE: c.value.v_code.code = arena_strndup(a, v->value.v_code.code, v->value.v_code.code_len); break;
  case BSON_TYPE_SYMBOL:
    c.value.v_symbol.symbol = arena_strndup(a, v->value.v_symbol.symbol, v->value.v_symbol.len);
    break;
  case BSON_TYPE_CODEWSCOPE:
    c.value.v_codewscope.code = arena_strndup(a, v->value.v_codewscope.code, v->value.v_codewscope.code_len);
    c.value.v_codewscope.scope_data =
        arena_memdup(a, v->value.v_codewscope.scope_data, v->value.v_codewscope.scope_len);
    break;
  default: break;
  }
  return c;
}

void doc_append_num(bson_t *doc, const char *name, int64_t n) {
  if (n >= INT32_MIN && n <= INT32_MAX)
    BSON_APPEND_INT32(doc, name, (int32_t)n);
  else
    BSON_APPEND_INT64(doc, name, n);
}

void doc_append_uuid(bson_t *doc, const char *name, const uint8_t uuid[16]) {
  BSON_APPEND_BINARY(doc, name, BSON_SUBTYPE_UUID, uuid, 16);
}

void doc_append_ts(bson_t *doc, const char *name, uint64_t ts) {
  BSON_APPEND_TIMESTAMP(doc, name, (uint32_t)(ts >> 32), (uint32_t)ts);
}

void doc_append_array(bson_t *doc, const char *name, const bson_t *array) {
  bson_t copy;
  BSON_APPEND_ARRAY_BEGIN(doc, name, &copy);
  (void)bson_concat(&copy, array);
  (void)bson_append_array_end(doc, &copy);
}

void doc_append_value(bson_t *doc, const char *name, const bson_value_t *v) {
  bson_t array;
  if (v->value_type != BSON_TYPE_ARRAY) {
    if (v->value_type != BSON_TYPE_EOD) bson_append_value(doc, name, -1, v);
    return;
  }
  if (bson_init_static(&array, v->value.v_doc.data, v->value.v_doc.data_len)) doc_append_array(doc, name, &array);
}

void doc_append_iter(bson_t *doc, const char *name, const bson_iter_t *it) {
  if (!name) name = bson_iter_key(it);
  if (!BSON_ITER_HOLDS_ARRAY(it)) {
    bson_append_iter(doc, name, -1, it);
    return;
  }
  bson_t array;
  iter_doc(&array, it);
  doc_append_array(doc, name, &array);
}

bool doc_equal_bytes(const bson_t *a, const bson_t *b) {
  return a->len == b->len && !memcmp(bson_get_data(a), bson_get_data(b), a->len);
}
