// Reading messages: every length is checked before it is used, every document is validated once.
#include "proto/message.h"

#include <string.h>

#include "common/bson/doc.h"
#include "proto/bytes.h"
#include "proto/compress.h"

enum {
  HEADER_COMPRESSED = 9,       // original opcode, uncompressed size, compressor id
  MSG_FLAGS_REQUIRED = 0xFFFF, // flag bits that a receiver must know
  MSG_FLAGS_KNOWN = MSG_CHECKSUM | MSG_MORE_TO_COME,
  QUERY_FIXED = 8,  // numberToSkip, numberToReturn
  REPLY_FIXED = 20, // flags, cursorId, startingFrom, numberReturned
};

// What is left to read.
struct input {
  const uint8_t *at, *end;
};

static size_t left(const struct input *in) {
  return (size_t)(in->end - in->at);
}

static bool broken(struct error *err, const char *why) {
  return error_set(err, ERR_ProtocolError, "Malformed message: %s", why);
}

static bool take_u32(struct input *in, uint32_t *out, struct error *err) {
  if (left(in) < 4) return broken(err, "it is cut off");
  *out = get_u32(in->at);
  in->at += 4;
  return true;
}

static bool take_cstring(struct input *in, const char **out, struct error *err) {
  const uint8_t *zero = memchr(in->at, 0, left(in));
  if (!zero) return broken(err, "a name is not terminated");
  *out = (const char *)in->at;
  in->at = zero + 1;
  return true;
}

// A validated document at in->at.
static bool take_document(struct input *in, const uint8_t **data, size_t *len, struct error *err) {
  if (left(in) < 5) return broken(err, "a document is cut off");
  size_t n = get_u32(in->at);
  if (n < 5 || n > left(in)) return broken(err, "a document's length is out of bounds");
  if (!doc_validate(in->at, n, err)) return false;
  *data = in->at;
  *len = n;
  in->at += n;
  return true;
}

static bool take_body(struct input *in, bson_t *body, struct error *err) {
  const uint8_t *data = NULL;
  size_t len = 0;
  if (!take_document(in, &data, &len, err)) return false;
  return bson_init_static(body, data, len) || broken(err, "a document's length is out of bounds");
}

// The name of an opcode that MongoDB had once.
static const char *retired_opcode(int32_t opcode) {
  switch (opcode) {
  case 2001: return "OP_UPDATE";
  case 2002: return "OP_INSERT";
  case 2005: return "OP_GET_MORE";
  case 2006: return "OP_DELETE";
  case 2007: return "OP_KILL_CURSORS";
  default: return NULL;
  }
}

static bool opcode_known(int32_t opcode) {
  return opcode == OP_MSG || opcode == OP_QUERY || opcode == OP_COMPRESSED || opcode == OP_REPLY;
}

bool message_length(const uint8_t *header, size_t *total, struct error *err) {
  int32_t len = get_i32(header), opcode = get_i32(header + 12);
  if (len < MESSAGE_HEADER_BYTES || len > MESSAGE_MAX_BYTES) {
    return error_set(err, ERR_ProtocolError, "Message length %d is out of bounds, it must be from %d to %d", len,
                     MESSAGE_HEADER_BYTES, MESSAGE_MAX_BYTES);
  }
  if (!opcode_known(opcode)) {
    const char *old = retired_opcode(opcode);
    if (!old) return error_set(err, ERR_ProtocolError, "Unknown opcode %d", opcode);
    return error_set(err, ERR_ProtocolError, "%s is no longer supported. The client driver may require an upgrade",
                     old);
  }
  *total = (size_t)len;
  return true;
}

static bool parse_sequence(struct input *in, struct message *out, struct error *err) {
  if (out->n_sequences == MESSAGE_MAX_SEQUENCES) return broken(err, "too many document sequences");
  if (left(in) < 4) return broken(err, "a document sequence is cut off");
  size_t size = get_u32(in->at);
  if (size < 5 || size > left(in)) return broken(err, "a document sequence's length is out of bounds");
  struct input part = {in->at + 4, in->at + size};
  in->at = part.end;
  struct sequence *s = &out->sequences[out->n_sequences];
  if (!take_cstring(&part, &s->name, err)) return false;
  for (size_t i = 0; i < out->n_sequences; i++) {
    if (!strcmp(out->sequences[i].name, s->name)) return broken(err, "a document sequence is there twice");
  }
  s->data = part.at;
  s->len = left(&part);
  s->count = 0;
  while (part.at < part.end) {
    const uint8_t *data;
    size_t len;
    if (!take_document(&part, &data, &len, err)) return false;
    s->count++;
  }
  out->n_sequences++;
  return true;
}

static bool parse_sections(struct input *in, struct message *out, struct error *err) {
  bool has_body = false;
  while (in->at < in->end) {
    uint8_t kind = *in->at++;
    if (kind == 0) {
      if (has_body) return broken(err, "it has two bodies");
      if (!take_body(in, &out->body, err)) return false;
      has_body = true;
    } else if (kind == 1) {
      if (!parse_sequence(in, out, err)) return false;
    } else {
      return error_set(err, ERR_ProtocolError, "Malformed message: unknown section kind %d", kind);
    }
  }
  return has_body || broken(err, "it has no body");
}

// `in` is behind the header; `data` is where the message begins, for the checksum.
static bool parse_msg(const uint8_t *data, struct input *in, struct message *out, struct error *err) {
  if (!take_u32(in, &out->flags, err)) return false;
  uint32_t unknown = out->flags & MSG_FLAGS_REQUIRED & ~(uint32_t)MSG_FLAGS_KNOWN;
  if (unknown) return error_set(err, ERR_ProtocolError, "Message contains illegal flags 0x%x", unknown);
  if (out->flags & MSG_CHECKSUM) {
    if (left(in) < 4) return broken(err, "its checksum is cut off");
    in->end -= 4;
    if (crc32c(0, data, (size_t)(in->end - data)) != get_u32(in->end)) {
      return broken(err, "its checksum does not match its contents");
    }
  }
  return parse_sections(in, out, err);
}

static bool parse_query(struct input *in, struct message *out, struct error *err) {
  if (!take_u32(in, &out->flags, err) || !take_cstring(in, &out->query_ns, err)) return false;
  if (left(in) < QUERY_FIXED) return broken(err, "it is cut off");
  in->at += QUERY_FIXED;
  if (!take_body(in, &out->body, err)) return false;
  if (in->at == in->end) return true;
  const uint8_t *selector; // returnFieldsSelector: without a meaning for commands
  size_t len;
  if (!take_document(in, &selector, &len, err)) return false;
  return in->at == in->end || broken(err, "there is something behind its end");
}

static bool parse_reply(struct input *in, struct message *out, struct error *err) {
  if (left(in) < REPLY_FIXED) return broken(err, "it is cut off");
  out->flags = get_u32(in->at);
  if (get_u32(in->at + 16) != 1) return broken(err, "a reply must hold one document");
  in->at += REPLY_FIXED;
  if (!take_body(in, &out->body, err)) return false;
  return in->at == in->end || broken(err, "there is something behind its end");
}

static bool parse_plain(const uint8_t *data, size_t len, struct message *out, struct error *err) {
  struct input in = {data + MESSAGE_HEADER_BYTES, data + len};
  switch (out->opcode) {
  case OP_MSG: return parse_msg(data, &in, out, err);
  case OP_QUERY: return parse_query(&in, out, err);
  default: return parse_reply(&in, out, err);
  }
}

// Rebuilds the message that was compressed, header included, because a checksum covers that too.
static bool parse_compressed(struct arena *a, const uint8_t *data, size_t len, struct message *out, struct error *err) {
  const uint8_t *at = data + MESSAGE_HEADER_BYTES;
  if (len < MESSAGE_HEADER_BYTES + HEADER_COMPRESSED) return broken(err, "it is cut off");
  int32_t opcode = get_i32(at), size = get_i32(at + 4);
  if (opcode == OP_COMPRESSED || !opcode_known(opcode)) {
    return error_set(err, ERR_ProtocolError, "Malformed message: opcode %d cannot be compressed", opcode);
  }
  if (size < 0 || size > MESSAGE_MAX_BYTES - MESSAGE_HEADER_BYTES) {
    return error_set(err, ERR_ProtocolError, "Malformed message: uncompressed length %d is out of bounds", size);
  }
  if (at[8] > COMPRESSOR_ZSTD) return error_set(err, ERR_ProtocolError, "Unknown compressor %d", at[8]);
  out->compressor = (enum compressor)at[8];
  size_t total = MESSAGE_HEADER_BYTES + (size_t)size;
  uint8_t *plain = arena_alloc(a, total);
  memcpy(plain, data, MESSAGE_HEADER_BYTES);
  put_u32(plain, (uint32_t)total);
  put_u32(plain + 12, (uint32_t)opcode);
  at += HEADER_COMPRESSED;
  if (!compressor_expand(out->compressor, at, len - MESSAGE_HEADER_BYTES - HEADER_COMPRESSED,
                         plain + MESSAGE_HEADER_BYTES, (size_t)size, err)) {
    return false;
  }
  out->opcode = opcode;
  return parse_plain(plain, total, out, err);
}

bool message_parse(struct arena *a, const uint8_t *data, size_t len, struct message *out, struct error *err) {
  memset(out, 0, sizeof *out);
  if (len < MESSAGE_HEADER_BYTES) return broken(err, "its header is cut off");
  out->request_id = get_i32(data + 4);
  out->response_to = get_i32(data + 8);
  out->opcode = get_i32(data + 12);
  size_t total = 0;
  if (!message_length(data, &total, err)) return false;
  if (total != len) return broken(err, "its length is not the announced one");
  if (out->opcode == OP_COMPRESSED) return parse_compressed(a, data, len, out, err);
  return parse_plain(data, len, out, err);
}

bool sequence_next(const struct sequence *s, size_t *at, bson_t *doc) {
  if (s->len - *at < 5) return false;
  size_t n = get_u32(s->data + *at);
  if (n > s->len - *at || !bson_init_static(doc, s->data + *at, n)) return false;
  *at += n;
  return true;
}
