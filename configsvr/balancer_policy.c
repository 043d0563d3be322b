// Which chunk the balancer moves: the data-size policy of 8.0 and the classic one of chunk counts.
#include "configsvr/balancer_policy.h"

#include <string.h>

enum { ANY_ZONE = -1 }; // "no zone": chunks outside of all zones, which every shard may have

struct plan {
  const struct policy_input *in;
  struct policy_move *moves;
  size_t n;
};

const char *move_reason_text(enum move_reason r) {
  static const char *const names[] = {"", "draining", "zoneViolation", "chunksImbalance"};
  return names[r];
}

// --- zones ---

// The first zone that ends above the key.
static size_t zone_above(const struct policy_input *in, struct key key) {
  size_t low = 0, high = in->n_zones;
  while (low < high) {
    size_t mid = low + (high - low) / 2;
    if (key_compare(in->zones[mid].max, key) <= 0) {
      low = mid + 1;
    } else {
      high = mid;
    }
  }
  return low;
}

// The zone a chunk lies in, by its lower bound; ANY_ZONE when in none.
static int zone_of(const struct policy_input *in, const struct chunk *c) {
  size_t i = zone_above(in, c->min);
  return i < in->n_zones && key_compare(in->zones[i].min, c->min) <= 0 ? (int)i : ANY_ZONE;
}

static bool is_within(const struct key *bound, const struct chunk *c) {
  return key_compare(*bound, c->min) > 0 && key_compare(*bound, c->max) < 0;
}

size_t policy_zone_bounds_within(const struct policy_input *in, const struct chunk *c, const struct key **out,
                                 size_t limit) {
  size_t n = 0;
  const struct key *last = NULL;
  for (size_t i = zone_above(in, c->min); i < in->n_zones && key_compare(in->zones[i].min, c->max) < 0; i++) {
    const struct key *bounds[] = {&in->zones[i].min, &in->zones[i].max};
    for (size_t j = 0; j < 2; j++) {
      bool repeated = last && key_compare(*last, *bounds[j]) == 0; // one zone ends where the next begins
      if (repeated || n == limit || !is_within(bounds[j], c)) continue;
      out[n++] = last = bounds[j];
    }
  }
  return n;
}

// zone NULL: outside of all zones, where every shard may have chunks.
static bool has_zone(const struct policy_shard *s, const char *zone) {
  return !zone || tags_name_zone(s->tags, zone);
}

static const char *zone_name(const struct policy_input *in, int zone) {
  return zone == ANY_ZONE ? NULL : in->zones[zone].name;
}

// --- shards ---

static struct policy_shard *find_shard(const struct policy_input *in, const char *name) {
  for (size_t i = 0; i < in->n_shards; i++) {
    if (strcmp(in->shards[i].name, name) == 0) return &in->shards[i];
  }
  return NULL;
}

// What a shard carries under the policy: bytes, or chunks.
static int64_t load_of(const struct policy_input *in, const struct policy_shard *s) {
  return in->classic ? (int64_t)chunk_map_shard_count(in->chunks, s->name) : s->size;
}

// The receiver for a zone: available, not draining, in the zone, with the least load; NULL = none.
static struct policy_shard *least_loaded(const struct policy_input *in, const char *zone,
                                         const struct policy_shard *but) {
  struct policy_shard *best = NULL;
  for (size_t i = 0; i < in->n_shards; i++) {
    struct policy_shard *s = &in->shards[i];
    if (!s->available || s->draining || s == but || !has_zone(s, zone)) continue;
    if (!best || load_of(in, s) < load_of(in, best)) best = s;
  }
  return best;
}

static struct policy_shard *most_loaded(const struct policy_input *in) {
  struct policy_shard *best = NULL;
  for (size_t i = 0; i < in->n_shards; i++) {
    struct policy_shard *s = &in->shards[i];
    if (s->available && (!best || load_of(in, s) > load_of(in, best))) best = s;
  }
  return best;
}

static void add(struct plan *p, struct policy_shard *from, struct policy_shard *to, const struct chunk *c,
                enum move_reason reason, int force_jumbo) {
  from->available = to->available = false;
  p->moves[p->n++] = (struct policy_move){.from = from->name,
                                          .to = to->name,
                                          .chunk = *c,
                                          .whole = p->in->classic,
                                          .force_jumbo = force_jumbo,
                                          .reason = reason};
}

// --- 1: draining ---

static bool drain_chunk(void *ctx, const struct chunk *c) {
  struct plan *p = ctx;
  struct policy_shard *from = find_shard(p->in, c->shard);
  if (!from || !from->draining || !from->available || c->jumbo) return true;
  struct policy_shard *to = least_loaded(p->in, zone_name(p->in, zone_of(p->in, c)), from);
  if (to) add(p, from, to, c, REASON_DRAINING, 2);
  return p->n < POLICY_MOVES_MAX;
}

static bool any_draining(const struct policy_input *in) {
  for (size_t i = 0; i < in->n_shards; i++) {
    if (in->shards[i].draining && in->shards[i].available) return true;
  }
  return false;
}

// --- 2: zones ---

static bool fix_zone(void *ctx, const struct chunk *c) {
  struct plan *p = ctx;
  const struct policy_input *in = p->in;
  const char *zone = zone_name(in, zone_of(in, c));
  struct policy_shard *from = find_shard(in, c->shard);
  if (!zone || !from || !from->available || has_zone(from, zone) || (c->jumbo && !in->attempt_jumbo)) return true;
  struct policy_shard *to = least_loaded(in, zone, from);
  if (to) add(p, from, to, c, REASON_ZONE, c->jumbo ? 2 : 0);
  return p->n < POLICY_MOVES_MAX;
}

// --- 3: balance ---

struct choice {
  const struct policy_input *in;
  const char *shard, *zone;
  struct chunk chunk;
  bool found;
};

static bool first_chunk(void *ctx, const struct chunk *c) {
  struct choice *x = ctx;
  if (c->jumbo || strcmp(c->shard, x->shard) != 0) return true;
  const char *zone = zone_name(x->in, zone_of(x->in, c));
  if (!zone != !x->zone || (zone && strcmp(zone, x->zone) != 0)) return true;
  x->chunk = *c;
  x->found = true;
  return false;
}

struct count { // chunks of one zone by shard
  const struct policy_input *in;
  const char *zone;
  int64_t *counts, total;
};

static bool count_chunk(void *ctx, const struct chunk *c) {
  struct count *x = ctx;
  const char *zone = zone_name(x->in, zone_of(x->in, c));
  if (!zone != !x->zone || (zone && strcmp(zone, x->zone) != 0)) return true;
  const struct policy_shard *s = find_shard(x->in, c->shard);
  if (s) x->counts[s - x->in->shards]++;
  x->total++;
  return true;
}

// The classic thresholds: how far apart the fullest and the emptiest shard may be.
static int64_t classic_threshold(int64_t chunks) {
  return chunks < 20 ? 2 : chunks < 80 ? 4 : 8;
}

static bool is_uneven(const struct policy_input *in, const char *zone, const struct policy_shard *from,
                      const struct policy_shard *to) {
  int64_t sum = 0, count = 0;
  for (size_t i = 0; i < in->n_shards; i++) {
    if (!has_zone(&in->shards[i], zone)) continue;
    sum += in->shards[i].size;
    count++;
  }
  int64_t ideal = count ? sum / count : 0;
  return from->size > ideal && to->size < ideal && from->size - to->size >= 3 * in->chunk_bytes;
}

// One move inside a zone (NULL: outside of all). false: none is needed or possible.
static bool balance_by_size(struct plan *p, const char *zone) {
  const struct policy_input *in = p->in;
  struct policy_shard *from = most_loaded(in), *to = least_loaded(in, zone, NULL);
  if (!from || !to || from == to || !is_uneven(in, zone, from, to)) return false;
  struct choice x = {.in = in, .shard = from->name, .zone = zone};
  chunk_map_all(in->chunks, first_chunk, &x);
  if (x.found) add(p, from, to, &x.chunk, REASON_IMBALANCE, 0);
  return x.found;
}

static bool balance_by_count(struct plan *p, const char *zone) {
  const struct policy_input *in = p->in;
  int64_t counts[256] = {0};
  if (in->n_shards > 256) return false; // more shards than the classic policy ever saw
  struct count n = {.in = in, .zone = zone, .counts = counts};
  chunk_map_all(in->chunks, count_chunk, &n);
  struct policy_shard *from = NULL, *to = NULL;
  for (size_t i = 0; i < in->n_shards; i++) {
    struct policy_shard *s = &in->shards[i];
    if (!s->available) continue;
    if (!from || counts[i] > counts[from - in->shards]) from = s;
    if (!s->draining && has_zone(s, zone) && (!to || counts[i] < counts[to - in->shards])) to = s;
  }
  if (!from || !to || from == to) return false;
  if (counts[from - in->shards] - counts[to - in->shards] < classic_threshold(n.total)) return false;
  struct choice x = {.in = in, .shard = from->name, .zone = zone};
  chunk_map_all(in->chunks, first_chunk, &x);
  if (x.found) add(p, from, to, &x.chunk, REASON_IMBALANCE, 0);
  return x.found;
}

// Each zone once (several ranges may have one zone), then what is in none.
static bool is_first_of_zone(const struct policy_input *in, size_t i) {
  for (size_t j = 0; j < i; j++) {
    if (strcmp(in->zones[j].name, in->zones[i].name) == 0) return false;
  }
  return true;
}

static void balance(struct plan *p) {
  for (size_t i = 0; i <= p->in->n_zones; i++) {
    if (i < p->in->n_zones && !is_first_of_zone(p->in, i)) continue;
    const char *zone = i < p->in->n_zones ? p->in->zones[i].name : NULL;
    while (p->n < POLICY_MOVES_MAX && (p->in->classic ? balance_by_count(p, zone) : balance_by_size(p, zone))) {
    }
  }
}

// --- all of it ---

struct crossing {
  const struct policy_input *in;
  struct chunk *chunk;
  bool found;
};

static bool find_crossing(void *ctx, const struct chunk *c) {
  struct crossing *x = ctx;
  const struct key *bound;
  if (policy_zone_bounds_within(x->in, c, &bound, 1) == 0) return true;
  if (x->chunk) *x->chunk = *c;
  x->found = true;
  return false;
}

size_t policy_balance(const struct policy_input *in, struct policy_move moves[POLICY_MOVES_MAX],
                      struct chunk *crossing) {
  struct plan p = {in, moves, 0};
  if (in->n_zones > 0) {
    struct crossing x = {in, crossing, false};
    chunk_map_all(in->chunks, find_crossing, &x);
    if (x.found) return 0;
  }
  if (any_draining(in)) chunk_map_all(in->chunks, drain_chunk, &p);
  if (in->n_zones > 0) chunk_map_all(in->chunks, fix_zone, &p);
  balance(&p);
  return p.n;
}
