// The routing table: making one from all chunks, or a new one from an old one and what changed.
//
// An update walks the old blocks in order. A block that no changed chunk reaches into is taken over by reference; the
// others are taken apart, and what remains of them goes into new blocks together with the changed chunks.
#include <stdlib.h>
#include <string.h>

#include "common/base/log.h"
#include "common/bson/doc.h"
#include "common/sharding/chunk_map_internal.h"

enum {
  PENDING_MAX = 2 * BLOCK_CHUNKS,
  // A new block below this takes its neighbour in (both become about half full), so that repeated small changes leave
  // no crumbs.
  BLOCK_CHUNKS_MIN = 64,
  SHARDS_MAX = UINT16_MAX, // a block has 16 bits for a shard
};

struct sortable {
  uint64_t prefix;
  const struct chunk *chunk;
};

struct builder {
  struct chunk_map *m;
  struct arena *scratch;
  struct block_item *pending; // on their way into a block
  size_t n_pending;
  size_t blocks_cap;
  const struct sortable *changed;
  size_t n, next; // changed chunks; the first one that is not in yet
  struct key at;  // everything below this is built
};

static void *allocate(size_t n, size_t size) {
  void *p = calloc(n ? n : 1, size);
  if (!p) log_fatal("SHARDING", "Out of memory for the routing table", NULL);
  return p;
}

static int by_min(const void *a, const void *b) {
  const struct sortable *x = a, *y = b;
  if (x->prefix != y->prefix) return x->prefix < y->prefix ? -1 : 1;
  return key_compare(x->chunk->min, y->chunk->min);
}

static struct sortable *sorted(const struct chunk *chunks, size_t n) {
  struct sortable *s = allocate(n, sizeof *s);
  for (size_t i = 0; i < n; i++) s[i] = (struct sortable){key_prefix8(chunks[i].min), &chunks[i]};
  qsort(s, n, sizeof *s, by_min);
  return s;
}

// --- making blocks ---

static void add_block(struct builder *b, struct block *block) {
  struct chunk_map *m = b->m;
  if (m->n_blocks == b->blocks_cap)
    m->blocks = array_grow(m->blocks, &b->blocks_cap, m->n_blocks + 1, sizeof *m->blocks);
  m->blocks[m->n_blocks++] = block;
}

// Cuts what is pending into the fewest blocks, of even size.
static void flush(struct builder *b) {
  size_t blocks = (b->n_pending + BLOCK_CHUNKS - 1) / BLOCK_CHUNKS, done = 0;
  for (size_t i = 0; i < blocks; i++) {
    size_t n = (b->n_pending - done) / (blocks - i);
    add_block(b, block_make(b->pending + done, n));
    done += n;
  }
  b->n_pending = 0;
}

static void add_item(struct builder *b, const struct block_item *it) {
  if (b->n_pending == PENDING_MAX) {
    add_block(b, block_make(b->pending, BLOCK_CHUNKS));
    b->n_pending -= BLOCK_CHUNKS;
    memmove(b->pending, b->pending + BLOCK_CHUNKS, b->n_pending * sizeof *b->pending);
  }
  b->pending[b->n_pending++] = *it;
}

// --- shards ---

// The position of a shard in the map's table, which grows when it is new. SHARDS_MAX: the table is full.
static uint16_t shard_number(struct chunk_map *m, const char *name) {
  for (size_t i = 0; i < m->n_shards; i++) {
    if (strcmp(m->shards[i].name, name) == 0) return (uint16_t)i;
  }
  if (m->n_shards == SHARDS_MAX) return SHARDS_MAX;
  struct map_shard *grown = allocate(m->n_shards + 1, sizeof *grown);
  if (m->n_shards) memcpy(grown, m->shards, m->n_shards * sizeof *grown);
  free(m->shards);
  m->shards = grown;
  m->shards[m->n_shards] = (struct map_shard){.name = arena_strdup(m->common->arena, name)};
  return (uint16_t)m->n_shards++;
}

static void sort_names(struct chunk_map *m) {
  m->by_name = allocate(m->n_shards, sizeof *m->by_name);
  for (size_t i = 0; i < m->n_shards; i++) {
    size_t j = i;
    for (; j > 0 && strcmp(m->shards[m->by_name[j - 1]].name, m->shards[i].name) > 0; j--)
      m->by_name[j] = m->by_name[j - 1];
    m->by_name[j] = (uint16_t)i;
  }
}

static bool newer(uint32_t major, uint32_t minor, uint32_t than_major, uint32_t than_minor) {
  return major > than_major || (major == than_major && minor > than_minor);
}

// Everything that is derived from the blocks: counts, versions, the search keys.
static void finish(struct chunk_map *m) {
  m->prefixes = allocate(m->n_blocks, sizeof *m->prefixes);
  m->count = 0;
  m->version.major = m->version.minor = 0;
  for (size_t i = 0; i < m->n_shards; i++) m->shards[i] = (struct map_shard){.name = m->shards[i].name};
  for (size_t i = 0; i < m->n_blocks; i++) {
    const struct block *b = m->blocks[i];
    m->prefixes[i] = key_prefix8(block_max(b, b->n - 1));
    m->count += b->n;
    for (size_t j = 0; j < b->n_shards; j++) {
      const struct block_shard *from = &b->shards[j];
      struct map_shard *to = &m->shards[from->shard];
      to->count += from->count;
      if (newer(from->major, from->minor, to->major, to->minor)) to->major = from->major, to->minor = from->minor;
    }
  }
  for (size_t i = 0; i < m->n_shards; i++) {
    const struct map_shard *s = &m->shards[i];
    if (newer(s->major, s->minor, m->version.major, m->version.minor))
      m->version.major = s->major, m->version.minor = s->minor;
  }
  sort_names(m);
}

// --- chunks ---

// A bound's values without their names.
static void strip(struct arena *a, const bson_t *bound, struct block_item *it) {
  bson_t values = BSON_INITIALIZER;
  bson_iter_t iter;
  bson_iter_init(&iter, bound);
  while (bson_iter_next(&iter)) doc_append_iter(&values, "", &iter);
  it->values = arena_memdup(a, bson_get_data(&values), values.len);
  it->values_len = values.len;
  bson_destroy(&values);
}

static bool refuse(struct error *err, struct builder *b, const struct chunk *c, const char *what) {
  return error_set(err, ERR_IncompatibleShardingMetadata, "The routing table has %s at chunk [%s, %s) on shard %s",
                   what, c->min_doc ? doc_text(b->scratch, c->min_doc) : "..", doc_text(b->scratch, c->max_doc),
                   c->shard);
}

// Adds the next changed chunk, which must begin where everything before it ends.
static bool add_changed(struct builder *b, struct error *err) {
  const struct chunk *c = b->changed[b->next].chunk;
  int order = key_compare(c->min, b->at);
  if (order != 0) return refuse(err, b, c, order < 0 ? "an overlap" : "a gap");
  if (key_compare(c->min, c->max) >= 0) return refuse(err, b, c, "an empty range");
  struct block_item it = {.max = c->max, .major = c->major, .minor = c->minor, .jumbo = c->jumbo};
  it.shard = shard_number(b->m, c->shard);
  if (it.shard == SHARDS_MAX) return refuse(err, b, c, "too many shards");
  strip(b->scratch, c->max_doc, &it);
  add_item(b, &it);
  b->at = c->max;
  b->next++;
  return true;
}

// One chunk of the old map: kept, or replaced by changed ones that cover it.
static bool add_old(struct builder *b, const struct block_item *old, struct key old_min, struct error *err) {
  bool replaced = key_compare(b->at, old_min) > 0;
  while (b->next < b->n && key_compare(b->changed[b->next].chunk->min, old->max) < 0) {
    if (!add_changed(b, err)) return false;
    replaced = true;
  }
  if (!replaced) {
    add_item(b, old);
    b->at = old->max;
  } else if (key_compare(b->at, old->max) < 0) {
    return refuse(err, b, b->changed[b->next - 1].chunk, "a gap behind it");
  }
  return true;
}

static bool add_old_block(struct builder *b, struct block *block, struct key min, struct error *err) {
  struct key max = block_max(block, block->n - 1);
  bool untouched =
      key_compare(b->at, min) == 0 && (b->next == b->n || key_compare(b->changed[b->next].chunk->min, max) >= 0);
  if (untouched && (b->n_pending == 0 || b->n_pending >= BLOCK_CHUNKS_MIN)) {
    flush(b);
    add_block(b, block_ref(block));
    b->at = max;
    return true;
  }
  for (size_t i = 0; i < block->n; i++) {
    struct block_item it = block_item_at(block, i);
    if (!add_old(b, &it, i ? block_max(block, i - 1) : min, err)) return false;
  }
  return true;
}

static bool build(struct builder *b, const struct chunk_map *old, struct error *err) {
  b->at = b->m->common->min;
  for (size_t i = 0; old && i < old->n_blocks; i++) {
    const struct block *before = i ? old->blocks[i - 1] : NULL;
    struct key min = before ? block_max(before, before->n - 1) : old->common->min;
    if (!add_old_block(b, old->blocks[i], min, err)) return false;
  }
  while (b->next < b->n) {
    if (!add_changed(b, err)) return false;
  }
  // invariant: one owner per key; what is built now reaches from all-MinKey to all-MaxKey
  if (b->n == 0 && !old) return error_set(err, ERR_IncompatibleShardingMetadata, "The collection has no chunks");
  if (key_compare(b->at, b->m->common->max) != 0) return refuse(err, b, b->changed[b->n - 1].chunk, "a gap behind it");
  flush(b);
  return true;
}

static struct chunk_map *build_map(struct chunk_map *m, const struct chunk_map *old, const struct chunk *chunks,
                                   size_t n, struct error *err) {
  struct sortable *changed = sorted(chunks, n);
  struct builder b = {.m = m, .scratch = arena_new(), .changed = changed, .n = n};
  b.pending = allocate(PENDING_MAX, sizeof *b.pending);
  bool ok = build(&b, old, err);
  if (ok) finish(m);
  free(b.pending);
  free(changed);
  arena_free(b.scratch);
  if (ok) return m;
  chunk_map_unref(m);
  return NULL;
}

static struct chunk_map_common *common_new(const bson_t *pattern, struct error *err) {
  struct chunk_map_common *c = allocate(1, sizeof *c);
  c->refs = 1;
  c->arena = arena_new();
  if (!shard_key_parse(c->arena, pattern, &c->key, err)) {
    chunk_map_common_unref(c);
    return NULL;
  }
  c->min = bound_key(c->arena, shard_key_global_min(&c->key, c->arena));
  c->max = bound_key(c->arena, shard_key_global_max(&c->key, c->arena));
  return c;
}

struct chunk_map *chunk_map_make(const bson_t *pattern, const struct chunk_version *generation,
                                 const struct chunk *chunks, size_t n, struct error *err) {
  struct chunk_map_common *common = common_new(pattern, err);
  if (!common) return NULL;
  struct chunk_map *m = allocate(1, sizeof *m);
  *m = (struct chunk_map){.refs = 1, .common = common, .version = *generation};
  return build_map(m, NULL, chunks, n, err);
}

struct chunk_map *chunk_map_update(const struct chunk_map *old, const struct chunk *changed, size_t n,
                                   struct error *err) {
  struct chunk_map *m = allocate(1, sizeof *m);
  *m = (struct chunk_map){.refs = 1, .common = old->common, .version = old->version, .n_shards = old->n_shards};
  m->common->refs++;
  m->shards = allocate(old->n_shards, sizeof *m->shards);
  memcpy(m->shards, old->shards, old->n_shards * sizeof *m->shards);
  return build_map(m, old, changed, n, err);
}
