// The hash of hashed keys: MD5 over a canonical form.
//
// MD5_Init and its like are OpenSSL's older interface: EVP looks the algorithm up anew for each digest, which took most
// of a key's time.
#define OPENSSL_API_COMPAT 0x10100000L
#include "common/bson/hash.h"

#include <endian.h>
#include <openssl/md5.h>
#include <string.h>

#include "common/base/buf.h"
#include "common/bson/compare.h"
#include "common/bson/doc.h"

static void add_u64(struct buf *b, uint64_t v) {
  buf_add_u32le(b, (uint32_t)v);
  buf_add_u32le(b, (uint32_t)(v >> 32));
}

// Numbers hash as the int64 they truncate to. 2^63 as a double is past the range and hashes as -2^63: kept for
// compatibility.
static int64_t hashed_number(const bson_value_t *v) {
  if (v->value_type == BSON_TYPE_DOUBLE && v->value.v_double == 9223372036854775808.0) return INT64_MIN;
  return value_i64(v);
}

static void add_value(struct buf *b, const bson_value_t *v);

static void add_fields(struct buf *b, const uint8_t *data, uint32_t len) {
  bson_t doc;
  doc_view(&doc, data, len);
  bson_iter_t it;
  if (bson_iter_init(&it, &doc)) {
    while (bson_iter_next(&it)) {
      const bson_value_t *v = bson_iter_value(&it);
      buf_add_u32le(b, (uint32_t)value_canonical_type(v->value_type));
      buf_add(b, bson_iter_key(&it), strlen(bson_iter_key(&it)) + 1);
      add_value(b, v);
    }
  }
  buf_add_u32le(b, 0);
}

static void add_text(struct buf *b, const char *s, uint32_t len) {
  buf_add_u32le(b, len + 1);
  buf_add(b, s, len);
  buf_add_byte(b, 0);
}

static void add_value(struct buf *b, const bson_value_t *v) {
  switch (v->value_type) {
  case BSON_TYPE_INT32:
  case BSON_TYPE_INT64:
  case BSON_TYPE_DOUBLE:
  case BSON_TYPE_DECIMAL128: add_u64(b, (uint64_t)hashed_number(v)); break;
  case BSON_TYPE_UTF8: add_text(b, v->value.v_utf8.str, v->value.v_utf8.len); break;
  case BSON_TYPE_SYMBOL: add_text(b, v->value.v_symbol.symbol, v->value.v_symbol.len); break;
  case BSON_TYPE_CODE: add_text(b, v->value.v_code.code, v->value.v_code.code_len); break;
  case BSON_TYPE_OID: buf_add(b, v->value.v_oid.bytes, sizeof v->value.v_oid.bytes); break;
  case BSON_TYPE_BOOL: buf_add_byte(b, v->value.v_bool); break;
  case BSON_TYPE_DATE_TIME: add_u64(b, (uint64_t)v->value.v_datetime); break;
  case BSON_TYPE_TIMESTAMP:
    buf_add_u32le(b, v->value.v_timestamp.increment);
    buf_add_u32le(b, v->value.v_timestamp.timestamp);
    break;
  case BSON_TYPE_BINARY:
    buf_add_u32le(b, v->value.v_binary.data_len);
    buf_add_byte(b, (uint8_t)v->value.v_binary.subtype);
    buf_add(b, v->value.v_binary.data, v->value.v_binary.data_len);
    break;
  case BSON_TYPE_REGEX:
    buf_add(b, v->value.v_regex.regex, strlen(v->value.v_regex.regex) + 1);
    buf_add(b, v->value.v_regex.options, strlen(v->value.v_regex.options) + 1);
    break;
  case BSON_TYPE_DBPOINTER:
    add_text(b, v->value.v_dbpointer.collection, v->value.v_dbpointer.collection_len);
    buf_add(b, v->value.v_dbpointer.oid.bytes, sizeof v->value.v_dbpointer.oid.bytes);
    break;
  case BSON_TYPE_DOCUMENT:
  case BSON_TYPE_ARRAY: add_fields(b, v->value.v_doc.data, v->value.v_doc.data_len); break;
  case BSON_TYPE_CODEWSCOPE:
    buf_add(b, v->value.v_codewscope.code, v->value.v_codewscope.code_len);
    buf_add_byte(b, 0);
    add_fields(b, v->value.v_codewscope.scope_data, v->value.v_codewscope.scope_len);
    break;
  default: break; // null, MinKey...: nothing but their type
  }
}

static int64_t digest64(const void *data, size_t len) {
  MD5_CTX md5;
  uint8_t digest[MD5_DIGEST_LENGTH];
  (void)MD5_Init(&md5);
  (void)MD5_Update(&md5, data, len);
  (void)MD5_Final(digest, &md5);
  uint64_t h = 0;
  for (int i = 7; i >= 0; i--) h = h << 8 | digest[i];
  return (int64_t)h;
}

// Numbers, which most hashed keys are: without a buffer.
static int64_t hash_number(const bson_value_t *v, int32_t seed) {
  struct {
    uint32_t seed, type;
    uint64_t value;
  } flat = {htole32((uint32_t)seed), htole32((uint32_t)value_canonical_type(v->value_type)),
            htole64((uint64_t)hashed_number(v))};
  return digest64(&flat, sizeof flat);
}

int64_t bson_hash64(const bson_value_t *v, int32_t seed) {
  bson_value_t null = value_null();
  if (!v) v = &null;
  if (value_is_number(v)) return hash_number(v, seed);
  __attribute__((cleanup(buf_cleanup))) struct buf b = {0};
  buf_add_u32le(&b, (uint32_t)seed);
  buf_add_u32le(&b, (uint32_t)value_canonical_type(v->value_type));
  add_value(&b, v);
  return digest64(b.data, b.len);
}
