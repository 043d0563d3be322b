// The hash of hashed shard keys and indexes: MD5 over the canonical form, first 8 bytes as a little-endian int64
// (reference/sharding.md section 9, with its oracles).
#ifndef SHARDLET_BSON_HASH_H
#define SHARDLET_BSON_HASH_H

#include <bson/bson.h>
#include <stdint.h>

int64_t bson_hash64(const bson_value_t *v, int32_t seed); // v == NULL hashes as null

#endif
