// CRC32C, bit-reflected polynomial 0x82F63B78 (RFC 3720 appendix B.4), a nibble at a time: clients that ask for
// checksums are rare, so a table of 16 words is enough.
#include "proto/bytes.h"

uint32_t crc32c(uint32_t crc, const uint8_t *data, size_t len) {
  static const uint32_t table[16] = {0x00000000, 0x105EC76F, 0x20BD8EDE, 0x30E349B1, 0x417B1DBC, 0x5125DAD3,
                                     0x61C69362, 0x7198540D, 0x82F63B78, 0x92A8FC17, 0xA24BB5A6, 0xB21572C9,
                                     0xC38D26C4, 0xD3D3E1AB, 0xE330A81A, 0xF36E6F75};
  crc = ~crc;
  for (size_t i = 0; i < len; i++) {
    crc ^= data[i];
    crc = crc >> 4 ^ table[crc & 15];
    crc = crc >> 4 ^ table[crc & 15];
  }
  return ~crc;
}
