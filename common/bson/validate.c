// Validation of documents that come from outside: everything behind it may trust a document's structure.
#include <string.h>

#include "common/bson/doc.h"

static uint32_t read_u32(const uint8_t *p) {
  return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static bool bad(struct error *err, const char *why) {
  return error_set(err, ERR_InvalidBSON, "Invalid BSON: %s", why);
}

// Whether all bytes are ASCII. Nearly every text is, and is then valid UTF-8 without being decoded.
static bool is_ascii(const uint8_t *text, size_t n) {
  uint64_t seen = 0, word;
  for (; n >= sizeof word; n -= sizeof word, text += sizeof word) {
    memcpy(&word, text, sizeof word);
    seen |= word;
  }
  for (; n; n--) seen |= *text++;
  return !(seen & UINT64_C(0x8080808080808080));
}

static bool is_utf8(const uint8_t *text, size_t n, bool may_have_zeros) {
  return is_ascii(text, n) || bson_utf8_validate((const char *)text, n, may_have_zeros);
}

struct level { // a document that is open
  size_t end;  // offset of its closing zero byte
};

// A zero-terminated UTF-8 text that begins at *at; moves *at behind it.
static bool skip_cstring(const uint8_t *data, size_t end, size_t *at, struct error *err) {
  const uint8_t *zero = memchr(data + *at, 0, end - *at);
  if (!zero) return bad(err, "a name is not terminated");
  size_t n = (size_t)(zero - (data + *at));
  if (!is_utf8(data + *at, n, false)) return bad(err, "a name is not UTF-8");
  *at += n + 1;
  return true;
}

// An int32 length (which counts the final zero), the bytes, the zero.
static bool skip_string(const uint8_t *data, size_t end, size_t *at, struct error *err) {
  if (end - *at < 5) return bad(err, "a string is cut off");
  uint32_t n = read_u32(data + *at);
  if (n < 1 || n > end - *at - 4) return bad(err, "a string's length is out of bounds");
  const uint8_t *s = data + *at + 4;
  if (s[n - 1] != 0) return bad(err, "a string is not terminated");
  if (!is_utf8(s, n - 1, true)) return bad(err, "a string is not UTF-8");
  *at += 4 + (size_t)n;
  return true;
}

static bool skip_fixed(size_t end, size_t *at, size_t n, struct error *err) {
  if (end - *at < n) return bad(err, "a value is cut off");
  *at += n;
  return true;
}

static bool skip_binary(const uint8_t *data, size_t end, size_t *at, struct error *err) {
  if (end - *at < 5) return bad(err, "binary data is cut off");
  uint32_t n = read_u32(data + *at);
  if (n > end - *at - 5) return bad(err, "the length of binary data is out of bounds");
  if (data[*at + 4] == BSON_SUBTYPE_BINARY_DEPRECATED && (n < 4 || read_u32(data + *at + 5) != n - 4)) {
    return bad(err, "binary data of subtype 2 has a wrong inner length");
  }
  *at += 5 + (size_t)n;
  return true;
}

// The pattern, then the options.
static bool skip_regex(const uint8_t *data, size_t end, size_t *at, struct error *err) {
  for (int part = 0; part < 2; part++) {
    if (!skip_cstring(data, end, at, err)) return false;
  }
  return true;
}

// int32 total, string, document. The scope is checked as a document of its own.
static bool skip_code_with_scope(const uint8_t *data, size_t end, size_t *at, struct error *err) {
  if (end - *at < 14) return bad(err, "code with scope is cut off");
  uint32_t total = read_u32(data + *at);
  if (total < 14 || total > end - *at) return bad(err, "the length of code with scope is out of bounds");
  size_t stop = *at + total;
  *at += 4;
  if (!skip_string(data, stop, at, err)) return false;
  if (!doc_validate(data + *at, stop - *at, err)) return false;
  *at = stop;
  return true;
}

static bool open_level(const uint8_t *data, size_t end, size_t *at, struct level *levels, size_t *depth,
                       struct error *err) {
  if (*depth >= DOC_MAX_DEPTH) {
    return error_set(err, ERR_Overflow, "BSONObj exceeded maximum nested object depth: %d", DOC_MAX_DEPTH);
  }
  if (end - *at < 5) return bad(err, "a document is cut off");
  uint32_t n = read_u32(data + *at);
  if (n < 5 || n > end - *at) return bad(err, "a document's length is out of bounds");
  if (data[*at + n - 1] != 0) return bad(err, "a document is not terminated");
  levels[(*depth)++].end = *at + n - 1;
  *at += 4;
  return true;
}

// The value of one element of a type without further documents in it.
static bool skip_value(uint8_t type, const uint8_t *data, size_t end, size_t *at, struct error *err) {
  switch (type) {
  case BSON_TYPE_DOUBLE:
  case BSON_TYPE_DATE_TIME:
  case BSON_TYPE_TIMESTAMP:
  case BSON_TYPE_INT64: return skip_fixed(end, at, 8, err);
  case BSON_TYPE_UTF8:
  case BSON_TYPE_CODE:
  case BSON_TYPE_SYMBOL: return skip_string(data, end, at, err);
  case BSON_TYPE_BINARY: return skip_binary(data, end, at, err);
  case BSON_TYPE_UNDEFINED:
  case BSON_TYPE_NULL:
  case BSON_TYPE_MINKEY:
  case BSON_TYPE_MAXKEY: return true;
  case BSON_TYPE_OID: return skip_fixed(end, at, 12, err);
  case BSON_TYPE_BOOL:
    if (*at < end && data[*at] > 1) return bad(err, "a boolean is neither 0 nor 1");
    return skip_fixed(end, at, 1, err);
  case BSON_TYPE_REGEX: return skip_regex(data, end, at, err);
  case BSON_TYPE_DBPOINTER: return skip_string(data, end, at, err) && skip_fixed(end, at, 12, err);
  case BSON_TYPE_CODEWSCOPE: return skip_code_with_scope(data, end, at, err);
  case BSON_TYPE_INT32: return skip_fixed(end, at, 4, err);
  case BSON_TYPE_DECIMAL128: return skip_fixed(end, at, 16, err);
  default: return bad(err, "unknown element type");
  }
}

bool doc_validate(const uint8_t *data, size_t len, struct error *err) {
  struct level levels[DOC_MAX_DEPTH + 1];
  size_t depth = 0, at = 0;
  if (!open_level(data, len, &at, levels, &depth, err)) return false;
  if (levels[0].end + 1 != len) return bad(err, "its length is not the document's");
  while (depth) {
    size_t end = levels[depth - 1].end;
    if (at == end) { // the closing zero byte
      depth--;
      at++;
      continue;
    }
    uint8_t type = data[at++];
    if (type == 0) return bad(err, "a document ends early");
    if (!skip_cstring(data, end, &at, err)) return false;
    bool nested = type == BSON_TYPE_DOCUMENT || type == BSON_TYPE_ARRAY;
    if (nested ? !open_level(data, end, &at, levels, &depth, err) : !skip_value(type, data, end, &at, err))
      return false;
  }
  return true;
}
