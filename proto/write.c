// Writing messages.
#include <string.h>

#include "common/bson/doc.h"
#include "proto/bytes.h"
#include "proto/compress.h"
#include "proto/message.h"

// Starts a message; end_message() fills its length in.
static size_t begin_message(struct buf *to, int32_t request_id, int32_t response_to, int32_t opcode) {
  size_t start = to->len;
  buf_add_u32le(to, 0);
  buf_add_u32le(to, (uint32_t)request_id);
  buf_add_u32le(to, (uint32_t)response_to);
  buf_add_u32le(to, (uint32_t)opcode);
  return start;
}

static void end_message(struct buf *to, size_t start) {
  put_u32(to->data + start, (uint32_t)(to->len - start));
}

// Two documents as one: the fields of `body`, then those of `more` (NULL: none).
static void add_joined(struct buf *to, const bson_t *body, const bson_t *more) {
  const uint8_t *first = bson_get_data(body);
  if (!more) {
    buf_add(to, first, body->len);
    return;
  }
  buf_add_u32le(to, body->len + more->len - 5); // one length and one closing zero less
  buf_add(to, first + 4, body->len - 5);
  buf_add(to, bson_get_data(more) + 4, more->len - 4);
}

void message_write_joined(struct buf *to, int32_t request_id, int32_t response_to, uint32_t flags, const bson_t *body,
                          const bson_t *more, const struct sequence *sequences, size_t n_sequences) {
  size_t room = MESSAGE_HEADER_BYTES + 16 + (size_t)body->len + (more ? more->len : 0);
  for (size_t i = 0; i < n_sequences; i++) room += 6 + strlen(sequences[i].name) + sequences[i].len;
  (void)buf_reserve(to, room);
  size_t start = begin_message(to, request_id, response_to, OP_MSG);
  buf_add_u32le(to, flags & ~(uint32_t)MSG_CHECKSUM);
  buf_add_byte(to, 0);
  add_joined(to, body, more);
  for (size_t i = 0; i < n_sequences; i++) {
    const struct sequence *s = &sequences[i];
    size_t name_len = strlen(s->name) + 1;
    buf_add_byte(to, 1);
    buf_add_u32le(to, (uint32_t)(4 + name_len + s->len));
    buf_add(to, s->name, name_len);
    buf_add(to, s->data, s->len);
  }
  end_message(to, start);
}

void message_write(struct buf *to, int32_t request_id, int32_t response_to, uint32_t flags, const bson_t *body,
                   const struct sequence *sequences, size_t n_sequences) {
  message_write_joined(to, request_id, response_to, flags, body, NULL, sequences, n_sequences);
}

void message_write_op_reply(struct buf *to, int32_t request_id, int32_t response_to, const bson_t *body) {
  size_t start = begin_message(to, request_id, response_to, OP_REPLY);
  buf_add_u32le(to, 8); // AwaitCapable, as MongoDB sets it always
  buf_add_u32le(to, 0); // cursorId
  buf_add_u32le(to, 0);
  buf_add_u32le(to, 0); // startingFrom
  buf_add_u32le(to, 1); // numberReturned
  buf_add(to, bson_get_data(body), body->len);
  end_message(to, start);
}

// Commands whose requests may never be compressed, because they carry or negotiate secrets and compressors.
static bool is_handshake(const uint8_t *message, size_t len) {
  static const char *const names[] = {"hello",        "isMaster", "ismaster",   "saslStart",  "saslContinue",
                                      "authenticate", "getnonce", "createUser", "updateUser", "copydbSaslStart"};
  if (get_i32(message + 12) != OP_MSG || len < MESSAGE_HEADER_BYTES + 11 || message[MESSAGE_HEADER_BYTES + 4] != 0) {
    return true; // an OP_QUERY or OP_REPLY is one; anything unusual stays plain too
  }
  const char *first =
      (const char *)message + MESSAGE_HEADER_BYTES + 10; // flags, kind, length, type: the first field's name
  size_t room = len - MESSAGE_HEADER_BYTES - 10;
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    size_t n = strlen(names[i]) + 1;
    if (n <= room && !memcmp(first, names[i], n)) return true;
  }
  return false;
}

bool message_compress(struct buf *to, size_t start, enum compressor c) {
  size_t len = to->len - start;
  if (c == COMPRESSOR_NONE || is_handshake(to->data + start, len)) return false;
  const size_t head = MESSAGE_HEADER_BYTES + 9;
  size_t plain = len - MESSAGE_HEADER_BYTES, bound = compressor_bound(c, plain);
  __attribute__((cleanup(buf_cleanup))) struct buf packed = {0};
  size_t n = compressor_pack(c, to->data + start + MESSAGE_HEADER_BYTES, plain, buf_reserve(&packed, bound), bound);
  if (n == 0 || head + n >= len) return false;
  uint8_t *at = to->data + start;
  uint32_t opcode = get_u32(at + 12);
  put_u32(at, (uint32_t)(head + n));
  put_u32(at + 12, OP_COMPRESSED);
  put_u32(at + 16, opcode);
  put_u32(at + 20, (uint32_t)plain);
  at[24] = (uint8_t)c;
  memcpy(at + head, packed.data, n);
  to->len = start + head + n;
  return true;
}
