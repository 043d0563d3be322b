// Split points: counting index entries. See split_points.h for how a caller drives this.
//
// By size: after every K = chunk size / average size entries the next new key becomes a point; the first key of the
// range counts for the first piece although it can be no point. If the last piece would stay under 80 % of K, the last
// points (three at most) are placed again, evenly (one more scan), or the last one is dropped when the surplus is
// small.
#include "common/sharding/split_points.h"

#include <string.h>

#include "common/base/buf.h"
#include "common/bson/doc.h"

enum {
  REPOSITIONED_MAX = 3,         // points that are placed again at most
  DEFAULT_MAX_OBJECTS = 250000, // splitVector's
  BYTES_PER_ITEM_IN_REPLY = 7,  // array element overhead
  REPLY_MAX = DOC_MAX_BYTES,
};

struct point {
  struct key key;
  const bson_t *document;
};

struct split_points {
  struct arena *arena;
  struct split_spec spec;
  int64_t piece; // entries a piece (K)
  int64_t count; // entries since the last point
  int64_t total; // entries of the first scan
  int scan;      // 0: the first, 1: the second
  bool started;  // an entry was seen in this scan
  bool several;  // the first scan met two different keys
  bool done, too_big;
  size_t wanted;          // second scan: how many points in all
  struct key first, last; // of the range; the last point (or the first key)
  int64_t reply_bytes;
  struct point *points;
  size_t n, cap;
  const bson_t **result;
};

static int64_t average(const struct split_spec *spec) {
  int64_t avg = spec->bytes / spec->records;
  return avg > 0 ? avg : 1;
}

struct split_points *split_points_new(struct arena *a, const struct split_spec *spec) {
  if (spec->records <= 0) return NULL;
  if (spec->policy != SPLIT_MEDIAN && (spec->chunk_bytes <= 0 || spec->bytes < spec->chunk_bytes)) return NULL;
  struct split_points *s = arena_zalloc(a, sizeof *s);
  s->arena = a;
  s->spec = *spec;
  if (spec->policy == SPLIT_BY_SIZE) {
    s->piece = spec->chunk_bytes / average(spec);
  } else if (spec->policy == SPLIT_HALF_SIZE) {
    int64_t most = spec->max_objects > 0 ? spec->max_objects : DEFAULT_MAX_OBJECTS;
    s->piece = spec->chunk_bytes / (2 * average(spec));
    if (s->piece > most) s->piece = most;
  } else {
    s->piece = INT64_MAX; // the first scan only counts
  }
  return s;
}

static struct key copy_key(struct arena *a, struct key k) {
  return (struct key){arena_memdup(a, k.data, k.len), k.len};
}

// splitVector looks for more than K entries, and its count begins with the first entry in every scan; by size it is K
// or more, and in the second scan no point may come before the previous one.
static bool piece_is_full(const struct split_points *s) {
  return s->spec.policy == SPLIT_BY_SIZE ? s->count >= s->piece : s->count > s->piece;
}

static void feed_first(struct split_points *s, struct key key) {
  s->started = true;
  if (s->scan == 0) {
    s->first = s->last = copy_key(s->arena, key);
  }
}

bool split_points_feed(struct split_points *s, struct key key) {
  if (split_points_enough(s)) return false;
  bool first = !s->started;
  if (first) feed_first(s, key);
  if (s->scan == 0) {
    s->total++;
    if (!s->several) s->several = key_compare(key, s->first) != 0;
  }
  s->count++;
  if (first && s->scan == 0) return false; // the first key of the range is no split point
  // A frequent key is left whole: the next distinct one is taken.
  return piece_is_full(s) && key_compare(key, s->last) != 0;
}

void split_points_take(struct split_points *s, struct key key, const bson_t *document) {
  int64_t bytes = (int64_t)document->len + BYTES_PER_ITEM_IN_REPLY;
  if (s->reply_bytes + bytes > REPLY_MAX) {
    s->too_big = true;
    return;
  }
  s->reply_bytes += bytes;
  s->points = arena_grow(s->arena, s->points, s->n, &s->cap, sizeof *s->points);
  s->last = copy_key(s->arena, key);
  s->points[s->n++] = (struct point){s->last, doc_copy(s->arena, document)};
  s->count = 0;
}

bool split_points_enough(const struct split_points *s) {
  if (s->too_big) return true;
  if (s->scan == 1 && s->spec.policy == SPLIT_BY_SIZE) return s->n >= s->wanted;
  if (s->spec.policy == SPLIT_MEDIAN) return s->n >= 1;
  int64_t beyond = s->spec.policy == SPLIT_BY_SIZE ? 1 : 0; // one point more decides about the piece before it
  return s->spec.limit > 0 && (int64_t)s->n >= s->spec.limit + beyond;
}

// Forgets points from the n-th on; counting begins anew behind the one before.
static void truncate_to(struct split_points *s, size_t n) {
  for (; s->n > n; s->n--) s->reply_bytes -= (int64_t)s->points[s->n - 1].document->len + BYTES_PER_ITEM_IN_REPLY;
  s->last = n ? s->points[n - 1].key : s->first;
  s->count = 0;
}

static bool scan_again(struct split_points *s) {
  s->scan = 1;
  s->started = false;
  s->count = 0;
  return false;
}

// The last piece of a first scan by size. true: nothing is left to do.
static bool even_out(struct split_points *s) {
  bool full_enough = (double)s->count >= 0.8 * (double)s->piece;
  if (full_enough || s->n == 0 || s->too_big) return true;
  int64_t moving = s->n < REPOSITIONED_MAX ? (int64_t)s->n : REPOSITIONED_MAX;
  int64_t piece = s->piece - (s->piece - s->count) / (moving + 1);
  if (s->count < s->piece - piece) { // a small surplus: the last piece stays bigger
    truncate_to(s, s->n - 1);
    return true;
  }
  s->wanted = s->n;
  truncate_to(s, s->n - (size_t)moving);
  s->piece = piece;
  return scan_again(s);
}

static void make_result(struct split_points *s) {
  if (s->spec.limit > 0 && (int64_t)s->n > s->spec.limit) truncate_to(s, (size_t)s->spec.limit);
  s->result = arena_alloc(s->arena, (s->n + 1) * sizeof *s->result);
  for (size_t i = 0; i < s->n; i++) s->result[i] = s->points[s->spec.backward ? s->n - 1 - i : i].document;
  s->done = true;
}

bool split_points_end(struct split_points *s) {
  if (s->scan == 0 && s->several) {
    if (s->spec.policy == SPLIT_BY_SIZE && !even_out(s)) return false;
    if (s->spec.policy == SPLIT_MEDIAN) {
      s->piece = s->total / 2;
      return scan_again(s);
    }
  }
  make_result(s);
  return true;
}

struct key split_points_restart(const struct split_points *s) {
  if (s->scan == 0 || s->n == 0) return (struct key){0};
  return s->last;
}

const bson_t *const *split_points_result(const struct split_points *s, size_t *n) {
  *n = s->done ? s->n : 0;
  return s->result;
}

bool split_points_single_key(const struct split_points *s) {
  return s->total > 0 && !s->several;
}

bool split_points_continuation(const struct split_points *s) {
  return s->too_big;
}
