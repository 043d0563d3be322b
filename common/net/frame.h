// Cuts messages out of a byte stream. Internal to common/net.
#ifndef SHARDLET_NET_FRAME_H
#define SHARDLET_NET_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/buf.h"
#include "common/base/error.h"
#include "proto/message.h"

// A message that is arriving. All zero: nothing of it has.
struct frame {
  struct buf bytes; // grows with what arrives, not with what is announced
  size_t total;     // 0 until the header is whole
};

// Takes what belongs to this message from `data`; *used says how much. err: a header that message_length() refuses;
// `bytes` then holds the header.
bool frame_feed(struct frame *f, const uint8_t *data, size_t len, size_t *used, struct error *err);
bool frame_whole(const struct frame *f);
// The whole message, the caller's from now on. The frame is ready for the next one.
struct buf frame_take(struct frame *f);

// For large messages: where the next bytes can be read to without a copy (NULL: few are missing), and how many came.
uint8_t *frame_room(struct frame *f, size_t *room);
void frame_filled(struct frame *f, size_t n);

#endif
