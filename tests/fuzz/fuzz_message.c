// Bytes from the network, whatever they are: message_length() and message_parse() must refuse or understand them, and
// what they understood must be readable to its last byte.
#include <string.h>

#include "common/bson/doc.h"
#include "proto/bytes.h"
#include "proto/message.h"

static void read_all(const bson_t *doc) {
  bson_iter_t it;
  if (!bson_iter_init(&it, doc)) __builtin_trap();
  while (bson_iter_next(&it)) (void)strlen(bson_iter_key(&it));
  if (it.err_off) __builtin_trap(); // validated, so libbson must agree
}

static void try_message(struct arena *a, const uint8_t *data, size_t len) {
  struct message m;
  struct error err;
  if (!message_parse(a, data, len, &m, &err)) {
    if (!err.code) __builtin_trap();
    return;
  }
  read_all(&m.body);
  for (size_t i = 0; i < m.n_sequences; i++) {
    bson_t doc;
    size_t at = 0, n = 0;
    while (sequence_next(&m.sequences[i], &at, &doc)) {
      read_all(&doc);
      n++;
    }
    if (n != m.sequences[i].count || at != m.sequences[i].len) __builtin_trap();
  }
  if (m.opcode != OP_MSG || m.flags & MSG_CHECKSUM) return;
  // Written again and read again it is the same.
  __attribute__((cleanup(buf_cleanup))) struct buf again = {0};
  struct message second;
  message_write(&again, m.request_id, m.response_to, m.flags, &m.body, m.sequences, m.n_sequences);
  if (!message_parse(a, again.data, again.len, &second, &err) || !doc_equal_bytes(&m.body, &second.body))
    __builtin_trap();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len) {
  __attribute__((cleanup(arena_cleanup))) struct arena *a = arena_new();
  try_message(a, data, len);
  if (len < MESSAGE_HEADER_BYTES) return 0;
  // The same with a length that fits and a known opcode, so that the fuzzer gets past the header.
  static const uint32_t opcodes[] = {OP_MSG, OP_QUERY, OP_COMPRESSED, OP_REPLY};
  uint8_t *copy = arena_memdup(a, data, len);
  put_u32(copy, (uint32_t)len);
  put_u32(copy + 12, opcodes[data[12] % 4]);
  try_message(a, copy, len);
  return 0;
}
