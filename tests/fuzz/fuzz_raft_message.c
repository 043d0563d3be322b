// What another member, or somebody who says so, sends: a message is refused or read, and written again as it was.
#include <stdlib.h>
#include <string.h>

#include "common/repl/consensus.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct members members;
  if (members_decode(data, size, &members)) members_free(&members);
  struct consensus_message m;
  if (!message_decode(data, size, &m)) return 0;
  struct buf again = {0};
  message_encode(&again, &m);
  if (again.len != size + 4) abort();
  struct consensus_message second;
  if (!message_decode(again.data + 4, again.len - 4, &second) || second.n_entries != m.n_entries) abort();
  message_clear(&second);
  message_clear(&m);
  buf_free(&again);
  return 0;
}
