// Little-endian numbers in the wire format.
#ifndef SHARDLET_PROTO_BYTES_H
#define SHARDLET_PROTO_BYTES_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

static inline uint32_t get_u32(const uint8_t *p) {
  return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static inline int32_t get_i32(const uint8_t *p) {
  return (int32_t)get_u32(p);
}

static inline void put_u32(uint8_t *p, uint32_t v) {
  for (int i = 0; i < 4; i++) p[i] = (uint8_t)(v >> (8 * i));
}

// CRC32C (Castagnoli) of `len` bytes, continuing from `crc` (0 at first): the checksum of an OP_MSG.
uint32_t crc32c(uint32_t crc, const uint8_t *data, size_t len);

#endif
