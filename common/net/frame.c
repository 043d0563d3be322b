// Cuts messages out of a byte stream.
#include "common/net/frame.h"

enum {
  FIRST_BYTES = 64 * 1024,   // memory for a message before more of it came
  DIRECT_BYTES = 128 * 1024, // so much must be missing for reading into place
};

static size_t smaller(size_t a, size_t b) {
  return a < b ? a : b;
}

static size_t missing(const struct frame *f) {
  return (f->total ? f->total : MESSAGE_HEADER_BYTES) - f->bytes.len;
}

static void take(struct frame *f, const uint8_t *data, size_t len, size_t *used) {
  size_t n = smaller(missing(f), len - *used);
  buf_add(&f->bytes, data + *used, n);
  *used += n;
}

bool frame_feed(struct frame *f, const uint8_t *data, size_t len, size_t *used, struct error *err) {
  *used = 0;
  if (!f->total) {
    take(f, data, len, used);
    if (missing(f)) return true;
    if (!message_length(f->bytes.data, &f->total, err)) return false;
    (void)buf_reserve(&f->bytes, smaller(missing(f), FIRST_BYTES));
  }
  take(f, data, len, used);
  return true;
}

bool frame_whole(const struct frame *f) {
  return f->total && f->bytes.len == f->total;
}

struct buf frame_take(struct frame *f) {
  struct buf bytes = f->bytes;
  *f = (struct frame){0};
  return bytes;
}

uint8_t *frame_room(struct frame *f, size_t *room) {
  if (!f->total || missing(f) < DIRECT_BYTES) return NULL;
  *room = smaller(missing(f), f->bytes.len + DIRECT_BYTES); // at most doubles
  return buf_reserve(&f->bytes, *room);
}

void frame_filled(struct frame *f, size_t n) {
  f->bytes.len += n;
}
