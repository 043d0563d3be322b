// The compressors of OP_COMPRESSED, behind one pair of functions.
#ifndef SHARDLET_PROTO_COMPRESS_H
#define SHARDLET_PROTO_COMPRESS_H

#include "proto/message.h"

// Expands `len` bytes into exactly `out_len` bytes at `out`. err: ProtocolError when that is not what they expand to.
bool compressor_expand(enum compressor c, const uint8_t *data, size_t len, uint8_t *out, size_t out_len,
                       struct error *err);

// The most that `len` bytes can become; 0 for COMPRESSOR_NONE.
size_t compressor_bound(enum compressor c, size_t len);
// Compresses into `out`, which has room for compressor_bound(). Returns the length, 0 when it failed.
size_t compressor_pack(enum compressor c, const uint8_t *data, size_t len, uint8_t *out, size_t room);

#endif
