// The order-preserving encoding of values.
//
// A value is a type byte (the canonical type, shifted so that it is never 0) and its content:
//   numbers   one of four type bytes (NaN, negative, zero, positive); then, but for NaN and zero, the magnitude as the
//   8 bytes of a
//             double, big-endian, then 1 when that is all, or 2 with the exact decimal digits: 2 bytes of exponent,
//             digits + 1, 0. All of a negative number's content is inverted.
//   strings   bytes with 00 written as 00 FF, then 00 00
//   objects   for each field: its type byte, name, 00, its whole encoding; then 00
//   arrays    for each element: its whole encoding; then 00
//   BinData   length (4 bytes, big-endian), subtype, bytes
// The others are their bytes, big-endian, signed ones with the sign bit flipped.
#include "common/bson/key.h"

#include <endian.h>
#include <string.h>

#include "common/bson/compare.h"
#include "common/bson/doc.h"
#include "common/bson/number.h"

enum { TYPE_MIN_KEY = 0x01, TYPE_MAX_KEY = 0xF0, TYPE_NUMBER = 12 };

static uint8_t type_byte(bson_type_t type) {
  if (type == BSON_TYPE_MINKEY) return TYPE_MIN_KEY;
  if (type == BSON_TYPE_MAXKEY) return TYPE_MAX_KEY;
  return (uint8_t)(value_canonical_type(type) + 2);
}

static void append_value(struct buf *to, const bson_value_t *v);

static void append_number(struct buf *to, const bson_value_t *v) {
  struct number n;
  number_of(v, &n);
  buf_add_byte(to, (uint8_t)(TYPE_NUMBER + n.cls));
  if (n.cls == NUMBER_NAN || n.cls == NUMBER_ZERO) return;
  uint8_t content[sizeof(uint64_t) + 1 + 2 + NUMBER_MAX_DIGITS + 1];
  uint64_t bits;
  memcpy(&bits, &n.magnitude, sizeof bits);
  bits = htobe64(bits);
  memcpy(content, &bits, sizeof bits);
  size_t len = sizeof bits;
  content[len++] = n.exact ? 1 : 2;
  if (!n.exact) {
    uint16_t exponent = (uint16_t)(n.exponent + 0x8000);
    content[len++] = (uint8_t)(exponent >> 8);
    content[len++] = (uint8_t)exponent;
    for (size_t i = 0; i < n.n_digits; i++) content[len++] = (uint8_t)(n.digits[i] + 1);
    content[len++] = 0;
  }
  if (n.cls == NUMBER_NEGATIVE) {
    for (size_t i = 0; i < len; i++) content[i] = (uint8_t)~content[i];
  }
  buf_add(to, content, len);
}

static void append_text(struct buf *to, const char *s, size_t n) {
  while (n) {
    const char *zero = memchr(s, 0, n);
    size_t part = zero ? (size_t)(zero - s) : n;
    buf_add(to, s, part);
    if (!zero) break;
    buf_add(to, "\0\xFF", 2);
    s += part + 1;
    n -= part + 1;
  }
  buf_add(to, "\0\0", 2);
}

static void append_u32(struct buf *to, uint32_t n) {
  uint8_t bytes[4] = {(uint8_t)(n >> 24), (uint8_t)(n >> 16), (uint8_t)(n >> 8), (uint8_t)n};
  buf_add(to, bytes, 4);
}

static void append_fields(struct buf *to, const uint8_t *data, uint32_t len, bool names) {
  bson_t doc;
  doc_view(&doc, data, len);
  bson_iter_t it;
  if (bson_iter_init(&it, &doc)) {
    while (bson_iter_next(&it)) {
      if (names) {
        buf_add_byte(to, type_byte(bson_iter_type(&it)));
        buf_add(to, bson_iter_key(&it), strlen(bson_iter_key(&it)) + 1);
      }
      append_value(to, bson_iter_value(&it));
    }
  }
  buf_add_byte(to, 0);
}

static void append_content(struct buf *to, const bson_value_t *v) {
  switch (v->value_type) {
  case BSON_TYPE_UTF8: append_text(to, v->value.v_utf8.str, v->value.v_utf8.len); break;
  case BSON_TYPE_SYMBOL: append_text(to, v->value.v_symbol.symbol, v->value.v_symbol.len); break;
  case BSON_TYPE_DOCUMENT: append_fields(to, v->value.v_doc.data, v->value.v_doc.data_len, true); break;
  case BSON_TYPE_ARRAY: append_fields(to, v->value.v_doc.data, v->value.v_doc.data_len, false); break;
  case BSON_TYPE_BINARY:
    append_u32(to, v->value.v_binary.data_len);
    buf_add_byte(to, (uint8_t)v->value.v_binary.subtype);
    buf_add(to, v->value.v_binary.data, v->value.v_binary.data_len);
    break;
  case BSON_TYPE_OID: buf_add(to, v->value.v_oid.bytes, sizeof v->value.v_oid.bytes); break;
  case BSON_TYPE_BOOL: buf_add_byte(to, v->value.v_bool); break;
  case BSON_TYPE_DATE_TIME: buf_add_u64be(to, (uint64_t)v->value.v_datetime ^ (UINT64_C(1) << 63)); break;
  case BSON_TYPE_TIMESTAMP:
    append_u32(to, v->value.v_timestamp.timestamp);
    append_u32(to, v->value.v_timestamp.increment);
    break;
  case BSON_TYPE_REGEX:
    buf_add(to, v->value.v_regex.regex, strlen(v->value.v_regex.regex) + 1);
    buf_add(to, v->value.v_regex.options, strlen(v->value.v_regex.options) + 1);
    break;
  case BSON_TYPE_DBPOINTER:
    append_u32(to, v->value.v_dbpointer.collection_len);
    buf_add(to, v->value.v_dbpointer.collection, v->value.v_dbpointer.collection_len);
    buf_add(to, v->value.v_dbpointer.oid.bytes, sizeof v->value.v_dbpointer.oid.bytes);
    break;
  case BSON_TYPE_CODE: append_text(to, v->value.v_code.code, v->value.v_code.code_len); break;
  case BSON_TYPE_CODEWSCOPE:
    append_text(to, v->value.v_codewscope.code, v->value.v_codewscope.code_len);
    append_fields(to, v->value.v_codewscope.scope_data, v->value.v_codewscope.scope_len, true);
    break;
  default: break; // one value each
  }
}

static void append_value(struct buf *to, const bson_value_t *v) {
  if (value_is_number(v)) {
    append_number(to, v);
    return;
  }
  buf_add_byte(to, type_byte(v->value_type));
  append_content(to, v);
}

void key_append(struct buf *to, const bson_value_t *v, bool descending) {
  size_t start = to->len;
  append_value(to, v);
  if (!descending) return;
  for (size_t i = start; i < to->len; i++) to->data[i] = (uint8_t)~to->data[i];
}

void key_append_doc(struct buf *to, const bson_t *doc, const bson_t *pattern) {
  bson_iter_t it, p;
  bool directed = pattern && bson_iter_init(&p, pattern);
  if (!bson_iter_init(&it, doc)) return;
  while (bson_iter_next(&it)) {
    bool descending = directed && bson_iter_next(&p) && iter_is_number(&p) && iter_i64(&p) < 0;
    key_append(to, bson_iter_value(&it), descending);
  }
}

int key_compare(struct key a, struct key b) {
  size_t n = a.len < b.len ? a.len : b.len;
  int order = n ? memcmp(a.data, b.data, n) : 0;
  return order ? order : (a.len > b.len) - (a.len < b.len);
}

struct key key_copy(struct arena *a, const struct buf *from) {
  return (struct key){.data = arena_memdup(a, from->data ? from->data : (const uint8_t *)"", from->len),
                      .len = from->len};
}

struct key key_prefix_end(struct arena *a, struct key k) {
  size_t n = k.len;
  while (n && k.data[n - 1] == 0xFF) n--;
  if (!n) return (struct key){0};
  uint8_t *end = arena_memdup(a, k.data, n);
  end[n - 1]++;
  return (struct key){.data = end, .len = n};
}
