// Documents as text, in the form of MongoDB's messages: { a: 1, b: "x", c: MinKey }.
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "common/bson/doc.h"

enum { MAX_TEXT = 16 * 1024 }; // beyond it texts end with "..."

static void add_value(struct buf *b, const bson_value_t *v);

static void add_fields(struct buf *b, const uint8_t *data, uint32_t len, bool array) {
  bson_t doc;
  doc_view(&doc, data, len);
  bson_iter_t it;
  if (!bson_iter_init(&it, &doc)) return;
  bool first = true;
  buf_printf(b, array ? "[" : "{");
  while (bson_iter_next(&it)) {
    if (b->len > MAX_TEXT) {
      buf_printf(b, ", ...");
      break;
    }
    buf_printf(b, first ? " " : ", ");
    first = false;
    if (!array) buf_printf(b, "%s: ", bson_iter_key(&it));
    add_value(b, bson_iter_value(&it));
  }
  buf_printf(b, first ? (array ? "]" : "}") : (array ? " ]" : " }"));
}

static void add_double(struct buf *b, double d) {
  if (isnan(d))
    buf_printf(b, "nan.0");
  else if (isinf(d))
    buf_printf(b, d > 0 ? "inf.0" : "-inf.0");
  else if (d == trunc(d) && fabs(d) < 1e15)
    buf_printf(b, "%.1f", d);
  else
    buf_printf(b, "%.16g", d);
}

static void add_binary(struct buf *b, const bson_value_t *v) {
  const uint8_t *p = v->value.v_binary.data;
  uint32_t n = v->value.v_binary.data_len;
  if (v->value.v_binary.subtype == BSON_SUBTYPE_UUID && n == 16) {
    buf_printf(b, "UUID(\"");
    for (uint32_t i = 0; i < n; i++) buf_printf(b, "%s%02x", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", p[i]);
    buf_printf(b, "\")");
    return;
  }
  buf_printf(b, "BinData(%d, ", (int)v->value.v_binary.subtype);
  for (uint32_t i = 0; i < n && i < 64; i++) buf_printf(b, "%02X", p[i]);
  buf_printf(b, ")");
}

static void add_oid(struct buf *b, const bson_oid_t *oid) {
  char text[25];
  bson_oid_to_string(oid, text);
  buf_printf(b, "ObjectId('%s')", text);
}

static void add_value(struct buf *b, const bson_value_t *v) {
  switch (v->value_type) {
  case BSON_TYPE_DOUBLE: add_double(b, v->value.v_double); break;
  case BSON_TYPE_UTF8: buf_printf(b, "\"%.*s\"", (int)v->value.v_utf8.len, v->value.v_utf8.str); break;
  case BSON_TYPE_DOCUMENT: add_fields(b, v->value.v_doc.data, v->value.v_doc.data_len, false); break;
  case BSON_TYPE_ARRAY: add_fields(b, v->value.v_doc.data, v->value.v_doc.data_len, true); break;
  case BSON_TYPE_BINARY: add_binary(b, v); break;
  case BSON_TYPE_UNDEFINED: buf_printf(b, "undefined"); break;
  case BSON_TYPE_OID: add_oid(b, &v->value.v_oid); break;
  case BSON_TYPE_BOOL: buf_printf(b, v->value.v_bool ? "true" : "false"); break;
  case BSON_TYPE_DATE_TIME: buf_printf(b, "new Date(%" PRId64 ")", v->value.v_datetime); break;
  case BSON_TYPE_NULL: buf_printf(b, "null"); break;
  case BSON_TYPE_REGEX: buf_printf(b, "/%s/%s", v->value.v_regex.regex, v->value.v_regex.options); break;
  case BSON_TYPE_DBPOINTER: buf_printf(b, "DBRef(\"%s\")", v->value.v_dbpointer.collection); break;
  case BSON_TYPE_CODE:
  case BSON_TYPE_CODEWSCOPE: buf_printf(b, "Code"); break;
  case BSON_TYPE_SYMBOL: buf_printf(b, "\"%s\"", v->value.v_symbol.symbol); break;
  case BSON_TYPE_INT32: buf_printf(b, "%" PRId32, v->value.v_int32); break;
  case BSON_TYPE_TIMESTAMP:
    buf_printf(b, "Timestamp(%" PRIu32 ", %" PRIu32 ")", v->value.v_timestamp.timestamp,
               v->value.v_timestamp.increment);
    break;
  case BSON_TYPE_INT64: buf_printf(b, "%" PRId64, v->value.v_int64); break;
  case BSON_TYPE_DECIMAL128: {
    char text[BSON_DECIMAL128_STRING];
    bson_decimal128_to_string(&v->value.v_decimal128, text);
    buf_printf(b, "%s", text);
    break;
  }
  case BSON_TYPE_MINKEY: buf_printf(b, "MinKey"); break;
  case BSON_TYPE_MAXKEY: buf_printf(b, "MaxKey"); break;
  default: buf_printf(b, "missing"); break;
  }
}

const char *doc_text(struct arena *a, const bson_t *doc) {
  __attribute__((cleanup(buf_cleanup))) struct buf b = {0};
  add_fields(&b, bson_get_data(doc), doc->len, false);
  return arena_strdup(a, buf_str(&b));
}

const char *value_text(struct arena *a, const bson_value_t *v) {
  __attribute__((cleanup(buf_cleanup))) struct buf b = {0};
  add_value(&b, v);
  return arena_strdup(a, buf_str(&b));
}
