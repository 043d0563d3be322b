// Memory of one command: allocate freely, release all of it at once.
//
// An arena belongs to one operation (or one long-lived object that is replaced as a whole). Nothing allocated from it
// is freed on its own. Allocation never fails: a process that has no memory left ends with one clear line.
#ifndef SHARDLET_BASE_ARENA_H
#define SHARDLET_BASE_ARENA_H

#include <bson/bson.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

struct arena;

struct arena *arena_new(void);
void arena_free(struct arena *a);  // runs the cleanups, newest first; NULL is allowed
void arena_reset(struct arena *a); // as arena_free, but keeps the first block and the arena itself

// For `__attribute__((cleanup(arena_cleanup)))`.
void arena_cleanup(struct arena **a);

// `size` bytes aligned for any type (128 bytes from that size on: a bson_t needs it), not initialised / all zero. size
// 0 gives a valid pointer.
void *arena_alloc(struct arena *a, size_t size) __attribute__((malloc, alloc_size(2), returns_nonnull));
void *arena_zalloc(struct arena *a, size_t size) __attribute__((malloc, alloc_size(2), returns_nonnull));
void *arena_memdup(struct arena *a, const void *src, size_t size) __attribute__((returns_nonnull));
char *arena_strdup(struct arena *a, const char *s) __attribute__((returns_nonnull));
char *arena_strndup(struct arena *a, const char *s, size_t n) __attribute__((returns_nonnull));
char *arena_printf(struct arena *a, const char *fmt, ...) __attribute__((format(printf, 2, 3), returns_nonnull));
char *arena_vprintf(struct arena *a, const char *fmt, va_list ap)
    __attribute__((format(printf, 2, 0), returns_nonnull));

// An array of n elements of `size` bytes with room for one more: `array` itself while n < *cap, else a copy twice as
// large (which leaves the old one in the arena; array_grow() of buf.h is for arrays that live long).
void *arena_grow(struct arena *a, void *array, size_t n, size_t *cap, size_t size) __attribute__((returns_nonnull));

// Runs fn(arg) when the arena is freed or reset.
void arena_on_free(struct arena *a, void (*fn)(void *arg), void *arg);

// A new, empty, growable document that the arena destroys.
bson_t *arena_bson(struct arena *a) __attribute__((returns_nonnull));

// A read-only document over a copy of `len` bytes at `data`, which must be a well-formed document's bytes.
const bson_t *arena_bson_copy(struct arena *a, const uint8_t *data, size_t len) __attribute__((returns_nonnull));

// A read-only document over `data` itself, which must outlive the arena's use of it.
const bson_t *arena_bson_view(struct arena *a, const uint8_t *data, size_t len) __attribute__((returns_nonnull));

#endif
