// MongoDB's order of values and documents.
#include "common/bson/compare.h"

#include <string.h>

#include "common/bson/doc.h"
#include "common/bson/number.h"

int value_canonical_type(bson_type_t type) {
  switch (type) {
  case BSON_TYPE_MINKEY: return -1;
  case BSON_TYPE_EOD:
  case BSON_TYPE_UNDEFINED: return 0;
  case BSON_TYPE_NULL: return 5;
  case BSON_TYPE_INT32:
  case BSON_TYPE_INT64:
  case BSON_TYPE_DOUBLE:
  case BSON_TYPE_DECIMAL128: return 10;
  case BSON_TYPE_UTF8:
  case BSON_TYPE_SYMBOL: return 15;
  case BSON_TYPE_DOCUMENT: return 20;
  case BSON_TYPE_ARRAY: return 25;
  case BSON_TYPE_BINARY: return 30;
  case BSON_TYPE_OID: return 35;
  case BSON_TYPE_BOOL: return 40;
  case BSON_TYPE_DATE_TIME: return 45;
  case BSON_TYPE_TIMESTAMP: return 47;
  case BSON_TYPE_REGEX: return 50;
  case BSON_TYPE_DBPOINTER: return 55;
  case BSON_TYPE_CODE: return 60;
  case BSON_TYPE_CODEWSCOPE: return 65;
  case BSON_TYPE_MAXKEY: return 127;
  default: return 0;
  }
}

static int compare_u64(uint64_t a, uint64_t b) {
  return (a > b) - (a < b);
}

static int compare_bytes(const void *a, size_t na, const void *b, size_t nb) {
  int order = memcmp(a, b, na < nb ? na : nb);
  return order ? order : compare_u64(na, nb);
}

static void text_of(const bson_value_t *v, const char **s, uint32_t *n) {
  bool symbol = v->value_type == BSON_TYPE_SYMBOL;
  *s = symbol ? v->value.v_symbol.symbol : v->value.v_utf8.str;
  *n = symbol ? v->value.v_symbol.len : v->value.v_utf8.len;
}

static int compare_text(const bson_value_t *a, const bson_value_t *b) {
  const char *x, *y;
  uint32_t nx, ny;
  text_of(a, &x, &nx);
  text_of(b, &y, &ny);
  return compare_bytes(x, nx, y, ny);
}

// Length, then subtype, then content.
static int compare_binary(const bson_value_t *a, const bson_value_t *b) {
  uint32_t na = a->value.v_binary.data_len, nb = b->value.v_binary.data_len;
  if (na != nb) return compare_u64(na, nb);
  if (a->value.v_binary.subtype != b->value.v_binary.subtype) {
    return compare_u64(a->value.v_binary.subtype, b->value.v_binary.subtype);
  }
  return memcmp(a->value.v_binary.data, b->value.v_binary.data, na);
}

static int compare_regex(const bson_value_t *a, const bson_value_t *b) {
  int order = strcmp(a->value.v_regex.regex, b->value.v_regex.regex);
  return order ? order : strcmp(a->value.v_regex.options, b->value.v_regex.options);
}

static int compare_dbpointer(const bson_value_t *a, const bson_value_t *b) {
  uint32_t na = a->value.v_dbpointer.collection_len, nb = b->value.v_dbpointer.collection_len;
  if (na != nb) return compare_u64(na, nb);
  int order = memcmp(a->value.v_dbpointer.collection, b->value.v_dbpointer.collection, na);
  return order ? order : memcmp(&a->value.v_dbpointer.oid, &b->value.v_dbpointer.oid, sizeof(bson_oid_t));
}

static int compare_codewscope(const bson_value_t *a, const bson_value_t *b) {
  int order = compare_bytes(a->value.v_codewscope.code, a->value.v_codewscope.code_len, b->value.v_codewscope.code,
                            b->value.v_codewscope.code_len);
  if (order) return order;
  bson_t x;
  doc_view(&x, a->value.v_codewscope.scope_data, a->value.v_codewscope.scope_len);
  bson_t y;
  doc_view(&y, b->value.v_codewscope.scope_data, b->value.v_codewscope.scope_len);
  return doc_compare(&x, &y);
}

static int compare_documents(const bson_t *a, const bson_t *b, bool names) {
  bson_iter_t x, y;
  if (!bson_iter_init(&x, a) || !bson_iter_init(&y, b)) return 0;
  for (;;) {
    bool more_x = bson_iter_next(&x), more_y = bson_iter_next(&y);
    if (!more_x || !more_y) return (int)more_x - (int)more_y;
    const bson_value_t *vx = bson_iter_value(&x), *vy = bson_iter_value(&y);
    int order = value_canonical_type(vx->value_type) - value_canonical_type(vy->value_type);
    if (!order && names) order = strcmp(bson_iter_key(&x), bson_iter_key(&y));
    if (!order) order = value_compare(vx, vy);
    if (order) return order;
  }
}

static int compare_embedded(const bson_value_t *a, const bson_value_t *b) {
  bson_t x;
  doc_view(&x, a->value.v_doc.data, a->value.v_doc.data_len);
  bson_t y;
  doc_view(&y, b->value.v_doc.data, b->value.v_doc.data_len);
  return compare_documents(&x, &y, true);
}

int value_compare(const bson_value_t *a, const bson_value_t *b) {
  int type = value_canonical_type(a->value_type), order = type - value_canonical_type(b->value_type);
  if (order) return order;
  switch (type) {
  case 10: return number_compare(a, b);
  case 15: return compare_text(a, b);
  case 20:
  case 25: return compare_embedded(a, b);
  case 30: return compare_binary(a, b);
  case 35: return memcmp(&a->value.v_oid, &b->value.v_oid, sizeof(bson_oid_t));
  case 40: return (int)a->value.v_bool - (int)b->value.v_bool;
  case 45: return (a->value.v_datetime > b->value.v_datetime) - (a->value.v_datetime < b->value.v_datetime);
  case 47:
    return compare_u64((uint64_t)a->value.v_timestamp.timestamp << 32 | a->value.v_timestamp.increment,
                       (uint64_t)b->value.v_timestamp.timestamp << 32 | b->value.v_timestamp.increment);
  case 50: return compare_regex(a, b);
  case 55: return compare_dbpointer(a, b);
  case 60:
    return compare_bytes(a->value.v_code.code, a->value.v_code.code_len, b->value.v_code.code,
                         b->value.v_code.code_len);
  case 65: return compare_codewscope(a, b);
  default: return 0; // one value each
  }
}

bool value_equal(const bson_value_t *a, const bson_value_t *b) {
  return value_compare(a, b) == 0;
}

int doc_compare(const bson_t *a, const bson_t *b) {
  return compare_documents(a, b, true);
}

int doc_compare_values(const bson_t *a, const bson_t *b) {
  return compare_documents(a, b, false);
}

int doc_compare_pattern(const bson_t *a, const bson_t *b, const bson_t *pattern) {
  bson_iter_t x, y, p;
  if (!bson_iter_init(&x, a) || !bson_iter_init(&y, b) || !bson_iter_init(&p, pattern)) return 0;
  for (;;) {
    bool more_x = bson_iter_next(&x), more_y = bson_iter_next(&y);
    if (!more_x || !more_y) return (int)more_x - (int)more_y;
    bool descending = bson_iter_next(&p) && iter_is_number(&p) && iter_i64(&p) < 0;
    int order = value_compare(bson_iter_value(&x), bson_iter_value(&y));
    if (order) return descending ? -order : order;
  }
}
