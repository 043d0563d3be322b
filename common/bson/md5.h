// MD5 (RFC 1321), for hashed keys only: every document of a collection with a hashed key needs it several times, and
// general libraries spend most of a short message on looking the algorithm up.
#ifndef SHARDLET_BSON_MD5_H
#define SHARDLET_BSON_MD5_H

#include <stddef.h>
#include <stdint.h>

// The first 8 bytes of the digest, read as a little-endian number.
uint64_t md5_first8(const uint8_t *data, size_t len);

#endif
