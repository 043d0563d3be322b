// One round of the balancer: look, choose, split along zones, move (or, when there is nothing to move, merge), write
// down.
#include <string.h>
#include <time.h>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/bson/doc.h"
#include "configsvr/balancer_merge.h"
#include "configsvr/balancer_moves.h"

enum {
  COLLECTIONS_PER_QUERY = 100,
  SELECTION_MS = 5000,     // how long one round goes on looking at collections
  READ_TIMEOUT_MS = 60000, // everything that is read before the moves
  ZONE_BOUNDS_PER_CHUNK = 64,
  MOVES_MAX = 256,
};

struct round {
  struct operation *op;
  struct balancer_term *term;
  struct balancer_view view;
  struct ordered_move moves[MOVES_MAX];
  size_t n, moved, splits;
  int64_t began_ms, selected_ms, throttled_ms, migrated_ms; // times it took; began: when
};

static int minute_of_day(void) {
  time_t now = time(NULL);
  struct tm tm;
  localtime_r(&now, &tm);
  return tm.tm_hour * 60 + tm.tm_min;
}

static bool may_balance(const struct round *r) {
  return r->view.settings.enabled && settings_in_window(&r->view.settings, minute_of_day());
}

static size_t available_shards(const struct round *r) {
  size_t n = 0;
  for (size_t i = 0; i < r->view.n_shards; i++) n += r->view.shards[i].available;
  return n;
}

// --- choosing ---

// A zone begins or ends inside a chunk: it is cut there, and the collection waits for the next round.
static bool split_along_zones(struct round *r, const struct collection_view *c, const struct policy_input *in,
                              const struct chunk *chunk, struct error *err) {
  const struct key *bounds[ZONE_BOUNDS_PER_CHUNK];
  const bson_t *keys[ZONE_BOUNDS_PER_CHUNK], *min, *max;
  size_t n = policy_zone_bounds_within(in, chunk, bounds, ZONE_BOUNDS_PER_CHUNK);
  for (size_t i = 0; i < n; i++) { // from the bound's encoding back to its document
    size_t z = 0;
    while (bounds[i] != &c->zones[z].min && bounds[i] != &c->zones[z].max) z++;
    keys[i] = bounds[i] == &c->zones[z].min ? c->tags[z].min : c->tags[z].max;
  }
  chunk_docs(in->chunks, r->op->arena, chunk, &min, &max);
  log_info("BALANCER", "Splitting a chunk along its zones", "namespace:s min:b max:b", c->type.ns, min, max);
  if (!moves_split(r->op, r->term, &c->type, chunk->shard, min, max, keys, n, err)) return false;
  r->splits++;
  return true;
}

static void order(struct round *r, const struct collection_view *c, const struct policy_move *m) {
  if (r->n == MOVES_MAX) return;
  struct ordered_move *o = &r->moves[r->n++];
  *o = (struct ordered_move){.collection = &c->type,
                             .from = m->from,
                             .to = m->to,
                             .whole = m->whole,
                             .force_jumbo = m->force_jumbo,
                             .chunk_bytes = view_chunk_bytes(&r->view, c),
                             .reason = m->reason};
  chunk_docs(c->routing->chunks, r->op->arena, &m->chunk, &o->min, &o->max);
}

static bool choose_of(struct round *r, struct collection_view *c, struct error *err) {
  if (!view_open(r->op, r->term, c, err))
    return err->code == ERR_NamespaceNotSharded; // dropped meanwhile: nothing to do
  struct policy_input in = view_input(&r->view, c);
  struct policy_move *chosen = arena_alloc(r->op->arena, POLICY_MOVES_MAX * sizeof *chosen);
  struct chunk crossing = {0};
  size_t n = policy_balance(&in, chosen, &crossing);
  bool ok = true;
  if (crossing.shard) {
    ok = split_along_zones(r, c, &in, &crossing, err);
  }
  for (size_t i = 0; i < n; i++) order(r, c, &chosen[i]);
  view_close(c);
  return ok;
}

static bool choose(struct round *r, struct error *err) {
  struct collection_view *list;
  size_t n;
  if (!view_read_collections(r->op, r->term, NULL, &list, &n, err)) return false;
  for (size_t i = 0; i < n; i++) {
    if (available_shards(r) < 2 || clock_mono_ms() - r->began_ms > SELECTION_MS) return true;
    if (i % COLLECTIONS_PER_QUERY == 0) {
      size_t batch = n - i < COLLECTIONS_PER_QUERY ? n - i : COLLECTIONS_PER_QUERY;
      if (!view_read_sizes(r->op, &r->view, list + i, batch, err)) return false;
    }
    struct error why = {0};
    if (choose_of(r, &list[i], &why)) continue;
    if (!op_check(r->op, err)) return false;
    log_warn("BALANCER", "A collection could not be balanced", "namespace:s error:e", list[i].type.ns, &why);
  }
  return true;
}

// --- moving ---

// Two batches begin at least throttling_ms apart. Whoever changes the settings meanwhile is heard.
static bool throttle(struct round *r, bool *go, struct error *err) {
  int64_t due = r->term->last_batch_ms ? r->term->last_batch_ms + r->view.throttling_ms : 0;
  *go = true;
  for (int64_t wait; (wait = due - clock_mono_ms()) > 0;) {
    bool timed_out;
    if (!event_wait_for(r->op, &r->term->thread->wake, wait, &timed_out, err) && !timed_out) return false;
  }
  if (r->term->thread->woken) {
    if (!view_read_settings(r->op, r->term, &r->view, err)) return false;
    *go = may_balance(r);
  }
  return true;
}

static bool move(struct round *r, struct error *err) {
  int64_t start = clock_mono_ms();
  bool go;
  if (!throttle(r, &go, err)) return false;
  r->throttled_ms = clock_mono_ms() - start;
  if (!go) return true;
  start = r->term->last_batch_ms = clock_mono_ms();
  r->term->selecting = false;
  r->op->deadline_ms = OPERATION_NO_DEADLINE; // each migration has its own limits
  r->moved = moves_run(r->op, r->term, &r->view, r->moves, r->n);
  r->migrated_ms = clock_mono_ms() - start;
  return op_check(r->op, err);
}

// --- writing down ---

static void write_down(struct round *r, const struct error *failure) {
  if (!failure && r->n == 0) return; // idle rounds are not worth a row
  bson_t *d = arena_bson(r->op->arena), times;
  bson_append_int32(d, "executionTimeMillis", -1, (int32_t)(clock_mono_ms() - r->began_ms));
  bson_append_bool(d, "errorOccurred", -1, failure != NULL);
  if (failure) {
    bson_append_utf8(d, "errmsg", -1, failure->message, -1);
  } else {
    bson_append_int32(d, "candidateChunks", -1, (int32_t)r->n);
    bson_append_int32(d, "chunksMoved", -1, (int32_t)r->moved);
    bson_append_int32(d, "candidateUnshardedCollections", -1, 0);
    bson_append_int32(d, "unshardedCollectionsMoved", -1, 0);
    bson_append_int32(d, "imbalancedCachedCollections", -1, 0);
    bson_append_document_begin(d, "times", -1, &times);
    bson_append_int64(&times, "selectionTimeMillis", -1, r->selected_ms);
    bson_append_int64(&times, "throttleTimeMillis", -1, r->throttled_ms);
    bson_append_int64(&times, "migrationTimeMillis", -1, r->migrated_ms);
    bson_append_document_end(d, &times);
  }
  const char *host = replica_set_primary(r->term->config);
  catalog_log_change(r->op, r->term->config, host ? host : "", "config", "balancer.round", "", d);
}

// --- the round ---

static bool run(struct round *r, struct error *err) {
  if (!view_read_settings(r->op, r->term, &r->view, err)) return false;
  if (!may_balance(r)) return true;
  if (!view_read_shards(r->op, r->term, &r->view, err) || !choose(r, err)) return false;
  r->selected_ms = clock_mono_ms() - r->began_ms;
  if (r->n > 0) return move(r, err);
  return !merge_due(r->term, &r->view) || merge_all(r->op, r->term, &r->view, err);
}

bool balancer_round(struct operation *op, struct balancer_term *term, int64_t *interval_ms, bool *moved,
                    struct error *err) {
  struct round *r = arena_zalloc(op->arena, sizeof *r);
  r->op = op;
  r->term = term;
  r->view.interval_ms = 10000; // until it has been read
  r->began_ms = clock_mono_ms();
  op_deadline_in(op, READ_TIMEOUT_MS, ERR_ExceededTimeLimit);
  term->selecting = true;
  bool ok = run(r, err);
  term->selecting = false;
  op->deadline_ms = OPERATION_NO_DEADLINE;
  *interval_ms = r->view.interval_ms;
  *moved = r->moved > 0 || r->splits > 0;
  struct error gone = {0};
  if (op_check(op, &gone)) write_down(r, ok ? NULL : err);
  return ok;
}

bool balancer_evaluate(struct operation *op, struct balancer_term *term, const char *ns, struct collection_balance *out,
                       struct error *err) {
  struct balancer_view v = {0};
  struct collection_view *c;
  size_t n;
  if (!view_read_collections(op, term, ns, &c, &n, err)) return false;
  if (n == 0 || c->type.unsplittable)
    return error_set(err, ERR_NamespaceNotSharded, "Collection unsharded or undefined");
  if (!view_read_settings(op, term, &v, err) || !view_read_shards(op, term, &v, err) ||
      !view_read_sizes(op, &v, c, 1, err) || !view_open(op, term, c, err)) {
    return false;
  }
  struct policy_input in = view_input(&v, c);
  struct policy_move *moves = arena_alloc(op->arena, POLICY_MOVES_MAX * sizeof *moves);
  struct chunk crossing = {0};
  size_t moving = policy_balance(&in, moves, &crossing);
  *out = (struct collection_balance){.chunk_bytes = in.chunk_bytes, .compliant = moving == 0 && !crossing.shard};
  if (!out->compliant) out->violation = move_reason_text(moving ? moves[0].reason : REASON_ZONE);
  view_close(c);
  return true;
}
