// Small helpers over borrowed values that every part of the query language uses.
#ifndef SHARDLET_QUERY_VALUES_H
#define SHARDLET_QUERY_VALUES_H

#include <bson/bson.h>
#include <stdbool.h>
#include <string.h>

#include "common/bson/doc.h"

// "No value": what a field path gives where the field is not there.
static inline bson_value_t value_missing(void) {
  bson_value_t v = {.value_type = BSON_TYPE_EOD};
  return v;
}

static inline bool value_is_missing(const bson_value_t *v) {
  return v->value_type == BSON_TYPE_EOD;
}

// null, undefined or missing: what expressions call "nullish".
static inline bool value_is_nullish(const bson_value_t *v) {
  return v->value_type == BSON_TYPE_EOD || v->value_type == BSON_TYPE_NULL || v->value_type == BSON_TYPE_UNDEFINED;
}

static inline bool value_is_doc(const bson_value_t *v) {
  return v->value_type == BSON_TYPE_DOCUMENT;
}

static inline bool value_is_array(const bson_value_t *v) {
  return v->value_type == BSON_TYPE_ARRAY;
}

static inline bool value_is_string(const bson_value_t *v) {
  return v->value_type == BSON_TYPE_UTF8;
}

// An iterator over an embedded document's or array's fields. v must be one of the two.
static inline bool value_iter(const bson_value_t *v, bson_iter_t *it) {
  return bson_iter_init_from_data(it, v->value.v_doc.data, v->value.v_doc.data_len);
}

static inline bool value_equals_text(const bson_value_t *v, const char *text) {
  return v->value_type == BSON_TYPE_UTF8 && strlen(text) == v->value.v_utf8.len &&
         memcmp(v->value.v_utf8.str, text, v->value.v_utf8.len) == 0;
}

// A document value over raw bytes.
static inline bson_value_t value_raw(bson_type_t type, const uint8_t *data, size_t len) {
  bson_value_t v = {.value_type = type};
  v.value.v_doc.data = (uint8_t *)data;
  v.value.v_doc.data_len = (uint32_t)len;
  return v;
}

static inline bson_value_t value_strn(const char *s, size_t len) {
  bson_value_t v = {.value_type = BSON_TYPE_UTF8};
  v.value.v_utf8.str = (char *)s;
  v.value.v_utf8.len = (uint32_t)len;
  return v;
}

static inline bson_value_t value_date(int64_t ms) {
  bson_value_t v = {.value_type = BSON_TYPE_DATE_TIME};
  v.value.v_datetime = ms;
  return v;
}

static inline bson_value_t value_decimal(bson_decimal128_t d) {
  bson_value_t v = {.value_type = BSON_TYPE_DECIMAL128};
  v.value.v_decimal128 = d;
  return v;
}

#endif
