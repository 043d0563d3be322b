// Finding a field of a document.
//
// Commands and documents are asked for their fields by name all the time. libbson's iterator takes every element apart
// on the way; here only types and lengths are looked at until the name is met, and the iterator begins there.
#include <string.h>

#include "common/bson/doc.h"

static uint32_t read_u32(const uint8_t *p) {
  return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

enum { NOT_HERE = -1 }; // its length is in the value, or the type is unknown

static int fixed_bytes(uint8_t type) {
  switch (type) {
  case BSON_TYPE_DOUBLE:
  case BSON_TYPE_DATE_TIME:
  case BSON_TYPE_TIMESTAMP:
  case BSON_TYPE_INT64: return 8;
  case BSON_TYPE_INT32: return 4;
  case BSON_TYPE_BOOL: return 1;
  case BSON_TYPE_OID: return 12;
  case BSON_TYPE_DECIMAL128: return 16;
  case BSON_TYPE_NULL:
  case BSON_TYPE_UNDEFINED:
  case BSON_TYPE_MINKEY:
  case BSON_TYPE_MAXKEY: return 0;
  default: return NOT_HERE;
  }
}

// How many bytes the value of `left` bytes at most has; more than `left`: that cannot be said here.
static size_t value_bytes(uint8_t type, const uint8_t *value, size_t left) {
  int fixed = fixed_bytes(type);
  if (fixed != NOT_HERE) return (size_t)fixed;
  if (left < 4) return left + 1;
  switch (type) {
  case BSON_TYPE_UTF8:
  case BSON_TYPE_CODE:
  case BSON_TYPE_SYMBOL: return (size_t)read_u32(value) + 4;
  case BSON_TYPE_DOCUMENT:
  case BSON_TYPE_ARRAY: return read_u32(value);
  case BSON_TYPE_BINARY: return (size_t)read_u32(value) + 5;
  default: return left + 1;
  }
}

bool doc_get_n(const bson_t *doc, const char *name, size_t n, bson_iter_t *it) {
  const uint8_t *data = bson_get_data(doc);
  size_t at = 4, end = doc->len - 1; // of the closing zero
  while (at < end) {
    size_t key = at + 1, left = end - key;
    if (left > n && data[key + n] == 0 && !memcmp(data + key, name, n))
      return bson_iter_init_from_data_at_offset(it, data, doc->len, (uint32_t)at, (uint32_t)n);
    const uint8_t *zero = memchr(data + key, 0, left);
    if (!zero) break;
    size_t value = (size_t)(zero - data) + 1, bytes = value_bytes(data[at], data + value, end - value);
    if (bytes > end - value) break;
    at = value + bytes;
  }
  // The end; or an element that only libbson understands (a regex, something damaged).
  return at < end && bson_iter_init(it, doc) && bson_iter_find_w_len(it, name, (int)n);
}
