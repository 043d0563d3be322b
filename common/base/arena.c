// Arena allocation: a chain of blocks, a list of cleanups.
#include "common/base/arena.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
  FIRST_BLOCK = 4096 - 256, // most commands never need a second one; with its header and alignment just below 4 KiB
  BLOCK_BYTES = 64 * 1024,  // of the following ones; larger requests get a block of their own
  ALIGNMENT = 16,
  BSON_ALIGNMENT = 128, // of a bson_t, and so of every struct that holds one: they are at least as large
};

struct block {
  struct block *next;
  void *memory; // what malloc() gave: the block begins at the first aligned place in it
  size_t used, size;
  _Alignas(BSON_ALIGNMENT) uint8_t data[];
};

struct cleanup {
  struct cleanup *next;
  void (*fn)(void *arg);
  void *arg;
};

struct arena {
  struct block *blocks; // newest first
  struct cleanup *cleanups;
};

// Aligned by hand: every command makes some arenas, and aligned_alloc() takes many times as long as malloc().
static struct block *block_new(size_t size) {
  size_t whole = sizeof(struct block) + size + BSON_ALIGNMENT - 1;
  void *memory = malloc(whole);
  if (!memory) {
    (void)fprintf(stderr, "out of memory (%zu bytes wanted)\n", whole);
    _Exit(14);
  }
  uintptr_t begin = ((uintptr_t)memory + BSON_ALIGNMENT - 1) & ~(uintptr_t)(BSON_ALIGNMENT - 1);
  struct block *b = (struct block *)begin;
  b->next = NULL;
  b->memory = memory;
  b->used = 0;
  b->size = size;
  return b;
}

struct arena *arena_new(void) {
  struct block *b = block_new(FIRST_BLOCK);
  // The arena lives in its own first block.
  struct arena *a = (struct arena *)b->data;
  b->used = (sizeof *a + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
  a->blocks = b;
  a->cleanups = NULL;
  return a;
}

static void run_cleanups(struct arena *a) {
  // A cleanup may allocate and register more; so take them one by one.
  while (a->cleanups) {
    struct cleanup *c = a->cleanups;
    a->cleanups = c->next;
    c->fn(c->arg);
  }
}

void arena_free(struct arena *a) {
  if (!a) return;
  run_cleanups(a);
  struct block *b = a->blocks;
  while (b) {
    struct block *next = b->next;
    free(b->memory);
    b = next;
  }
}

void arena_reset(struct arena *a) {
  run_cleanups(a);
  struct block *b = a->blocks;
  while (b->next) { // the first block, where the arena itself is, is the last of the list
    struct block *next = b->next;
    free(b->memory);
    b = next;
  }
  a->blocks = b;
  b->used = (sizeof *a + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

void arena_cleanup(struct arena **a) {
  arena_free(*a);
  *a = NULL;
}

// Where the next `need` bytes with this alignment would begin in b.
static size_t aligned_start(const struct block *b, size_t alignment) {
  return (b->used + alignment - 1) / alignment * alignment;
}

void *arena_alloc(struct arena *a, size_t size) {
  size_t alignment = size >= BSON_ALIGNMENT ? BSON_ALIGNMENT : ALIGNMENT;
  size_t need = size ? size : 1;
  struct block *b = a->blocks;
  size_t start = aligned_start(b, alignment);
  if (start > b->size || b->size - start < need) {
    struct block *fresh = block_new(need > BLOCK_BYTES / 4 ? need : BLOCK_BYTES);
    if (need > BLOCK_BYTES / 4 && b->next) {
      // A block of its own goes behind the current one, which still has room for small things.
      fresh->next = b->next;
      b->next = fresh;
    } else {
      fresh->next = b;
      a->blocks = fresh;
    }
    b = fresh;
    start = 0;
  }
  b->used = start + need;
  return b->data + start;
}

void *arena_zalloc(struct arena *a, size_t size) {
  return memset(arena_alloc(a, size), 0, size);
}

void *arena_memdup(struct arena *a, const void *src, size_t size) {
  void *p = arena_alloc(a, size);
  if (size) memcpy(p, src, size);
  return p;
}

char *arena_strndup(struct arena *a, const char *s, size_t n) {
  char *p = arena_alloc(a, n + 1);
  memcpy(p, s, n);
  p[n] = 0;
  return p;
}

void *arena_grow(struct arena *a, void *array, size_t n, size_t *cap, size_t size) {
  if (array && n < *cap) return array;
  *cap = *cap ? 2 * *cap : 8;
  void *grown = arena_alloc(a, *cap * size);
  if (n) memcpy(grown, array, n * size);
  return grown;
}

char *arena_strdup(struct arena *a, const char *s) {
  return arena_strndup(a, s, strlen(s));
}

char *arena_vprintf(struct arena *a, const char *fmt, va_list ap) {
  va_list again;
  va_copy(again, ap);
  int n = vsnprintf(NULL, 0, fmt, ap);
  char *p = arena_alloc(a, (size_t)(n < 0 ? 0 : n) + 1);
  p[0] = 0;
  if (n > 0) (void)vsnprintf(p, (size_t)n + 1, fmt, again);
  va_end(again);
  return p;
}

char *arena_printf(struct arena *a, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  char *p = arena_vprintf(a, fmt, ap);
  va_end(ap);
  return p;
}

void arena_on_free(struct arena *a, void (*fn)(void *arg), void *arg) {
  struct cleanup *c = arena_alloc(a, sizeof *c);
  c->fn = fn;
  c->arg = arg;
  c->next = a->cleanups;
  a->cleanups = c;
}

static void destroy_bson(void *arg) {
  bson_destroy(arg);
}

bson_t *arena_bson(struct arena *a) {
  bson_t *b = arena_alloc(a, sizeof *b);
  bson_init(b);
  arena_on_free(a, destroy_bson, b);
  return b;
}

const bson_t *arena_bson_view(struct arena *a, const uint8_t *data, size_t len) {
  bson_t *b = arena_alloc(a, sizeof *b);
  if (!bson_init_static(b, data, len)) bson_init(b);
  return b;
}

const bson_t *arena_bson_copy(struct arena *a, const uint8_t *data, size_t len) {
  return arena_bson_view(a, arena_memdup(a, data, len), len);
}
