// The only place that sees uthash.
#include "common/base/map.h"

#include <stdlib.h>
#include <string.h>
#include <uthash.h>

struct pair {
  UT_hash_handle hh;
  void *value;
  unsigned char key[];
};

struct map {
  struct pair *pairs;
};

struct map *map_new(void) {
  struct map *m = calloc(1, sizeof *m);
  if (!m) abort();
  return m;
}

static struct pair *find(const struct map *m, const void *key, size_t len) {
  struct pair *p = NULL;
  HASH_FIND(hh, m->pairs, key, len, p);
  return p;
}

void *map_get(const struct map *m, const void *key, size_t len) {
  struct pair *p = find(m, key, len);
  return p ? p->value : NULL;
}

void *map_put(struct map *m, const void *key, size_t len, void *value) {
  struct pair *p = find(m, key, len);
  if (p) {
    void *old = p->value;
    p->value = value;
    return old;
  }
  p = malloc(sizeof *p + len);
  if (!p) abort();
  p->value = value;
  memcpy(p->key, key, len);
  HASH_ADD_KEYPTR(hh, m->pairs, p->key, len, p);
  return NULL;
}

void *map_remove(struct map *m, const void *key, size_t len) {
  struct pair *p = find(m, key, len);
  if (!p) return NULL;
  void *value = p->value;
  HASH_DEL(m->pairs, p);
  free(p);
  return value;
}

size_t map_count(const struct map *m) {
  return HASH_COUNT(m->pairs);
}

void *map_gets(const struct map *m, const char *key) {
  return map_get(m, key, strlen(key));
}

void *map_puts(struct map *m, const char *key, void *value) {
  return map_put(m, key, strlen(key), value);
}

void *map_removes(struct map *m, const char *key) {
  return map_remove(m, key, strlen(key));
}

void map_each(struct map *m, bool (*fn)(void *ctx, const void *key, size_t len, void *value), void *ctx) {
  struct pair *p = m->pairs;
  while (p) {
    struct pair *next = p->hh.next;
    if (!fn(ctx, p->key, p->hh.keylen, p->value)) return;
    p = next;
  }
}

void map_free(struct map *m, void (*free_value)(void *)) {
  if (!m) return;
  while (m->pairs) {
    struct pair *p = m->pairs;
    HASH_DEL(m->pairs, p);
    if (free_value) free_value(p->value);
    free(p);
  }
  free(m);
}
