// zlib, snappy and zstd for OP_COMPRESSED.
#include "proto/compress.h"

#include <snappy-c.h>
#include <string.h>
#include <zlib.h>
#include <zstd.h>

enum compressor compressor_by_name(const char *name) {
  if (!strcmp(name, "snappy")) return COMPRESSOR_SNAPPY;
  if (!strcmp(name, "zlib")) return COMPRESSOR_ZLIB;
  if (!strcmp(name, "zstd")) return COMPRESSOR_ZSTD;
  return COMPRESSOR_NONE;
}

// The expanded length, or SIZE_MAX when the bytes are no data of this compressor or do not fit.
static size_t expand(enum compressor c, const uint8_t *data, size_t len, uint8_t *out, size_t room) {
  switch (c) {
  case COMPRESSOR_NONE:
    if (len > room) return SIZE_MAX;
    memcpy(out, data, len);
    return len;
  case COMPRESSOR_SNAPPY: {
    size_t n = room;
    return snappy_uncompress((const char *)data, len, (char *)out, &n) == SNAPPY_OK ? n : SIZE_MAX;
  }
  case COMPRESSOR_ZLIB: {
    uLongf n = room;
    return uncompress(out, &n, data, len) == Z_OK ? n : SIZE_MAX;
  }
  case COMPRESSOR_ZSTD: {
    size_t n = ZSTD_decompress(out, room, data, len);
    return ZSTD_isError(n) ? SIZE_MAX : n;
  }
  }
  return SIZE_MAX;
}

bool compressor_expand(enum compressor c, const uint8_t *data, size_t len, uint8_t *out, size_t out_len,
                       struct error *err) {
  if (expand(c, data, len, out, out_len) == out_len) return true;
  return error_set(err, ERR_ProtocolError, "The compressed message does not expand to the length that it announces");
}

size_t compressor_bound(enum compressor c, size_t len) {
  switch (c) {
  case COMPRESSOR_NONE: return 0;
  case COMPRESSOR_SNAPPY: return snappy_max_compressed_length(len);
  case COMPRESSOR_ZLIB: return compressBound(len);
  case COMPRESSOR_ZSTD: return ZSTD_compressBound(len);
  }
  return 0;
}

size_t compressor_pack(enum compressor c, const uint8_t *data, size_t len, uint8_t *out, size_t room) {
  switch (c) {
  case COMPRESSOR_NONE: return 0;
  case COMPRESSOR_SNAPPY: {
    size_t n = room;
    return snappy_compress((const char *)data, len, (char *)out, &n) == SNAPPY_OK ? n : 0;
  }
  case COMPRESSOR_ZLIB: {
    uLongf n = room;
    return compress2(out, &n, data, len, Z_DEFAULT_COMPRESSION) == Z_OK ? n : 0;
  }
  case COMPRESSOR_ZSTD: {
    size_t n = ZSTD_compress(out, room, data, len, ZSTD_CLEVEL_DEFAULT);
    return ZSTD_isError(n) ? 0 : n;
  }
  }
  return 0;
}
