// A hash map from byte strings to pointers (over uthash). Keys are copied, values are the caller's.
#ifndef SHARDLET_BASE_MAP_H
#define SHARDLET_BASE_MAP_H

#include <stdbool.h>
#include <stddef.h>

struct map;

struct map *map_new(void);
void map_free(struct map *m, void (*free_value)(void *)); // free_value may be NULL; m may be NULL

void *map_get(const struct map *m, const void *key, size_t len);        // NULL = not there
void *map_put(struct map *m, const void *key, size_t len, void *value); // returns the value replaced, or NULL
void *map_remove(struct map *m, const void *key, size_t len);           // returns the value removed, or NULL
size_t map_count(const struct map *m);

// The same with a C string for a key (without its zero byte).
void *map_gets(const struct map *m, const char *key);
void *map_puts(struct map *m, const char *key, void *value);
void *map_removes(struct map *m, const char *key);

// Calls fn for every pair, in order of insertion, until it returns false. fn may remove the pair it is given, no other.
void map_each(struct map *m, bool (*fn)(void *ctx, const void *key, size_t len, void *value), void *ctx);

#endif
