// A growable byte buffer that owns its memory. Always zero-terminated behind `len`, so it can hold text as well.
#ifndef SHARDLET_BASE_BUF_H
#define SHARDLET_BASE_BUF_H

#include <stddef.h>
#include <stdint.h>

struct buf {
  uint8_t *data; // NULL when nothing was ever added
  size_t len, cap;
};

void buf_add(struct buf *b, const void *src, size_t n);
static inline void buf_add_byte(struct buf *b, uint8_t byte) {
  if (b->cap - b->len < 2) {
    buf_add(b, &byte, 1);
    return;
  }
  b->data[b->len++] = byte;
  b->data[b->len] = 0;
}
void buf_add_u32le(struct buf *b, uint32_t v);
void buf_add_u64be(struct buf *b, uint64_t v);
void buf_printf(struct buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
uint8_t *buf_reserve(struct buf *b, size_t n); // room for n more bytes; returns where they go (len is not changed)
void buf_clear(struct buf *b);                 // len = 0, memory kept
void buf_free(struct buf *b);                  // back to all zero
const char *buf_str(const struct buf *b);      // "" when empty
void buf_cleanup(struct buf *b);               // for __attribute__((cleanup(buf_cleanup)))

// Grows a malloc'd array to at least `need` elements of `size` bytes; returns the (moved) array. New room is zeroed.
void *array_grow(void *array, size_t *cap, size_t need, size_t size);

#endif
