// A growable byte buffer.
#include "common/base/buf.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *checked_realloc(void *old, size_t size) {
  void *p = realloc(old, size);
  if (!p) {
    (void)fprintf(stderr, "out of memory (%zu bytes wanted)\n", size);
    _Exit(14);
  }
  return p;
}

uint8_t *buf_reserve(struct buf *b, size_t n) {
  if (b->cap - b->len < n + 1 || !b->data) {
    size_t cap = b->cap ? b->cap : 64;
    while (cap < b->len + n + 1) cap *= 2;
    b->data = checked_realloc(b->data, cap);
    b->cap = cap;
  }
  return b->data + b->len;
}

void buf_add(struct buf *b, const void *src, size_t n) {
  uint8_t *to = buf_reserve(b, n);
  if (n) memcpy(to, src, n);
  b->len += n;
  b->data[b->len] = 0;
}

void buf_add_u32le(struct buf *b, uint32_t v) {
  uint8_t bytes[4] = {(uint8_t)v, (uint8_t)(v >> 8), (uint8_t)(v >> 16), (uint8_t)(v >> 24)};
  buf_add(b, bytes, sizeof bytes);
}

void buf_add_u64be(struct buf *b, uint64_t v) {
  uint8_t bytes[8];
  for (int i = 0; i < 8; i++) bytes[i] = (uint8_t)(v >> (56 - 8 * i));
  buf_add(b, bytes, sizeof bytes);
}

void buf_printf(struct buf *b, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  va_list again;
  va_copy(again, ap);
  int n = vsnprintf(NULL, 0, fmt, ap);
  va_end(ap);
  if (n > 0) {
    uint8_t *to = buf_reserve(b, (size_t)n);
    (void)vsnprintf((char *)to, (size_t)n + 1, fmt, again);
    b->len += (size_t)n;
  }
  va_end(again);
}

void buf_clear(struct buf *b) {
  b->len = 0;
  if (b->data) b->data[0] = 0;
}

void buf_free(struct buf *b) {
  free(b->data);
  *b = (struct buf){0};
}

void buf_cleanup(struct buf *b) {
  buf_free(b);
}

const char *buf_str(const struct buf *b) {
  return b->data ? (const char *)b->data : "";
}

void *array_grow(void *array, size_t *cap, size_t need, size_t size) {
  if (need <= *cap) return array;
  size_t fresh = *cap ? *cap * 2 : 8;
  if (fresh < need) fresh = need;
  uint8_t *p = checked_realloc(array, fresh * size);
  memset(p + *cap * size, 0, (fresh - *cap) * size);
  *cap = fresh;
  return p;
}
