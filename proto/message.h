// The wire format: bytes in, structs out. No sockets, no state (reference/clients.md section 2).
#ifndef SHARDLET_PROTO_MESSAGE_H
#define SHARDLET_PROTO_MESSAGE_H

#include <bson/bson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/arena.h"
#include "common/base/buf.h"
#include "common/base/error.h"

enum opcode { OP_REPLY = 1, OP_QUERY = 2004, OP_COMPRESSED = 2012, OP_MSG = 2013 };
enum msg_flags { MSG_CHECKSUM = 1, MSG_MORE_TO_COME = 2, MSG_EXHAUST_ALLOWED = 0x10000 };
enum compressor { COMPRESSOR_NONE = 0, COMPRESSOR_SNAPPY = 1, COMPRESSOR_ZLIB = 2, COMPRESSOR_ZSTD = 3 };
enum { MESSAGE_MAX_BYTES = 48000000, MESSAGE_HEADER_BYTES = 16, MESSAGE_MAX_STATEMENTS = 100000 };

struct sequence { // a kind-1 section: documents back to back
  const char *name;
  const uint8_t *data;
  size_t len;
  size_t count;
};

enum { MESSAGE_MAX_SEQUENCES = 4 };

struct message {
  bson_t body; // view
  int32_t request_id, response_to;
  int32_t opcode; // OP_MSG, OP_QUERY or OP_REPLY: what it was inside an OP_COMPRESSED
  uint32_t flags; // msg_flags; of an OP_QUERY its own flags
  struct sequence sequences[MESSAGE_MAX_SEQUENCES];
  size_t n_sequences;
  const char *query_ns;       // of an OP_QUERY ("admin.$cmd"), else NULL
  enum compressor compressor; // how it arrived
};

// The length that a header announces (16 bytes at `header`). err: ProtocolError when it is out of bounds or the opcode
// is unknown.
bool message_length(const uint8_t *header, size_t *total, struct error *err);

// Parses a whole message of `len` bytes. request_id is set whenever the header is there, also when it fails. Everything
// in *out points into `data`, or into `a` after decompression. Each document is validated once here (doc_validate).
// err: ProtocolError, InvalidBSON, Overflow: the caller answers if request_id is known and closes the connection.
bool message_parse(struct arena *a, const uint8_t *data, size_t len, struct message *out, struct error *err);

// Iterates a sequence: *at starts at 0. false at the end.
bool sequence_next(const struct sequence *s, size_t *at, bson_t *doc);

// Writers append one whole message.
void message_write(struct buf *to, int32_t request_id, int32_t response_to, uint32_t flags, const bson_t *body,
                   const struct sequence *sequences, size_t n_sequences);
// The same with the fields of `more` behind those of `body`, as one document: so that a large body is copied only once.
void message_write_joined(struct buf *to, int32_t request_id, int32_t response_to, uint32_t flags, const bson_t *body,
                          const bson_t *more, const struct sequence *sequences, size_t n_sequences);
void message_write_op_reply(struct buf *to, int32_t request_id, int32_t response_to, const bson_t *body);
// Compresses the message at to->data + start in place, when that makes it smaller and it is not a handshake.
bool message_compress(struct buf *to, size_t start, enum compressor c);
enum compressor compressor_by_name(const char *name); // "zlib", "snappy", "zstd"; else COMPRESSOR_NONE

#endif
