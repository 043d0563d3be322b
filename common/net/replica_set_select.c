// Choosing a member by read preference, and calling it with retries. As the drivers' server selection specification has
// it.
#include <string.h>

#include "common/base/clock.h"
#include "common/bson/doc.h"
#include "common/net/replica_set_internal.h"

enum {
  SELECT_TIMEOUT_MS = 20000,
  LATENCY_WINDOW_MS = 15,
  HEARTBEAT_MS = 10000, // what staleness is reckoned with
  MAX_ATTEMPTS = 4,     // the first and three retries
  // A primary that hands over refuses writes and still says what it is, until another one has been elected: such
  // refusals are no attempts, they are waited out.
  HANDOVER_MS = 10000,
  HANDOVER_PAUSE_MS = 10, // grows by itself
  HANDOVER_MAX_PAUSE_MS = 200,
};

static bool tags_match(const struct member *m, const bson_t *wanted) {
  bson_iter_t it;
  if (!bson_iter_init(&it, wanted)) return false;
  while (bson_iter_next(&it)) {
    bson_value_t v;
    if (!m->tags || !doc_value(m->tags, bson_iter_key(&it), &v) || v.value_type != BSON_TYPE_UTF8 ||
        !BSON_ITER_HOLDS_UTF8(&it) || strcmp(v.value.v_utf8.str, bson_iter_utf8(&it, NULL)) != 0) {
      return false;
    }
  }
  return true;
}

// How far a secondary is behind: against the primary where one is known, else against the freshest secondary.
static int64_t staleness_ms(const struct replica_set *s, const struct member *m) {
  const struct member *freshest = NULL;
  for (const struct member *other = s->members; other; other = other->next) {
    if (other->gone) continue;
    if (other->kind == KIND_PRIMARY) {
      return (m->last_update_ms - m->last_write_ms) - (other->last_update_ms - other->last_write_ms) + HEARTBEAT_MS;
    }
    if (other->kind == KIND_SECONDARY && (!freshest || other->last_write_ms > freshest->last_write_ms))
      freshest = other;
  }
  return freshest ? freshest->last_write_ms - m->last_write_ms + HEARTBEAT_MS : 0;
}

struct wish {
  bool primary, secondary;
  const bson_t *tags;       // one tag set; NULL = any
  int64_t max_staleness_ms; // 0 = any
};

static bool fits(const struct replica_set *s, const struct member *m, const struct wish *w) {
  if (m->gone) return false;
  if (m->kind == KIND_PRIMARY ? !w->primary : m->kind != KIND_SECONDARY || !w->secondary) return false;
  if (w->tags && !tags_match(m, w->tags)) return false;
  return !w->max_staleness_ms || m->kind == KIND_PRIMARY || staleness_ms(s, m) <= w->max_staleness_ms;
}

// One of those that fit and are nearly as near as the nearest, by chance.
static const struct member *pick(const struct replica_set *s, const struct wish *w) {
  double nearest = -1;
  for (const struct member *m = s->members; m; m = m->next) {
    if (fits(s, m, w) && (nearest < 0 || m->rtt_ms < nearest)) nearest = m->rtt_ms;
  }
  const struct member *chosen = NULL;
  uint64_t n = 0;
  for (const struct member *m = s->members; m; m = m->next) {
    if (!fits(s, m, w) || m->rtt_ms > nearest + LATENCY_WINDOW_MS) continue;
    if (n++ == 0 || random_u64() % n == 0) chosen = m;
  }
  return chosen;
}

// The tag sets are tried in order; no list at all, or an empty set in it, fits everybody.
static const struct member *pick_tagged(const struct replica_set *s, struct wish w, const bson_t *preference) {
  bson_t sets;
  bson_iter_t it;
  int64_t seconds = preference ? doc_i64(preference, "maxStalenessSeconds", 0) : 0;
  if (seconds > 0) w.max_staleness_ms = (seconds < INT32_MAX ? seconds : INT32_MAX) * 1000;
  if (!preference || !doc_doc(preference, "tags", &sets) || bson_empty(&sets) || !bson_iter_init(&it, &sets))
    return pick(s, &w);
  while (bson_iter_next(&it)) {
    bson_t tags;
    iter_doc(&tags, &it);
    w.tags = &tags;
    const struct member *m = pick(s, &w);
    if (m) return m;
  }
  return NULL;
}

static const struct member *choose(const struct replica_set *s, enum read_mode mode, const bson_t *preference) {
  const struct wish primary = {.primary = true}, secondary = {.secondary = true},
                    any = {.primary = true, .secondary = true};
  const struct member *m;
  switch (mode) {
  case READ_PRIMARY: return pick(s, &primary);
  case READ_PRIMARY_PREFERRED: return (m = pick(s, &primary)) ? m : pick_tagged(s, secondary, preference);
  case READ_SECONDARY: return pick_tagged(s, secondary, preference);
  case READ_SECONDARY_PREFERRED: return (m = pick_tagged(s, secondary, preference)) ? m : pick(s, &primary);
  case READ_NEAREST: return pick_tagged(s, any, preference);
  }
  return NULL;
}

static const char *mode_name(enum read_mode mode) {
  static const char *const names[] = {"primary", "primaryPreferred", "secondary", "secondaryPreferred", "nearest"};
  return names[mode];
}

bool replica_set_select(struct operation *op, struct replica_set *s, enum read_mode mode, const bson_t *preference,
                        const char **host, struct error *err) {
  if (preference && !read_preference_check(mode, preference, err)) return false;
  const struct member *m = choose(s, mode, preference);
  int64_t give_up = loop_now_ms(op->loop) + SELECT_TIMEOUT_MS;
  while (!m) {
    int64_t left = give_up - loop_now_ms(op->loop);
    if (left <= 0) {
      return error_set(err, ERR_FailedToSatisfyReadPreference,
                       "Could not find host matching read preference { mode: \"%s\" } for set %s", mode_name(mode),
                       s->name);
    }
    if (s->waiting++ == 0) {
      for (struct member *each = s->members; each; each = each->next) member_look(each);
    }
    s->refs++; // the owner may let go of the set meanwhile
    bool timed_out, ok = event_wait_for(op, &s->changed, left, &timed_out, err) || timed_out;
    s->waiting--;
    m = ok ? choose(s, mode, preference) : NULL;
    *host = m ? arena_strdup(op->arena, m->host) : NULL;
    bool closing = s->closing;
    replica_set_unref(s);
    if (!ok) return false;
    if (closing) return error_set(err, ERR_ShutdownInProgress, "the replica set is no longer watched");
    if (m) return true;
  }
  *host = arena_strdup(op->arena, m->host);
  return true;
}

// Whether the command surely had no effect, so that even a write may be sent again: it never reached the other side, or
// was refused there before it began.
static bool surely_not_run(const struct error *err, bool may_have_run) {
  return !may_have_run || err->code == ERR_NotWritablePrimary || err->code == ERR_NotPrimaryNoSecondaryOk ||
         err->code == ERR_NotPrimaryOrSecondary;
}

bool replica_set_call(struct operation *op, struct replica_set *s, enum read_mode mode, const bson_t *preference,
                      bool idempotent, const struct remote_command *cmd, const bson_t **reply, const char **host,
                      struct error *err) {
  bool may_have_run;
  struct remote_command sent = *cmd;
  int64_t patience_ends = loop_now_ms(op->loop) + HANDOVER_MS, pause = HANDOVER_PAUSE_MS;
  if (!sent.may_have_run) sent.may_have_run = &may_have_run;
  for (int attempt = 1;; attempt++) {
    *reply = NULL;
    *sent.may_have_run = false;
    if (!replica_set_select(op, s, mode, preference, host, err)) return false;
    if (remote_call(op, s->remotes, *host, &sent, reply, err)) return true;
    bool lost = error_is_network(err->code) || error_is_not_primary(err->code) || err->code == ERR_ShutdownInProgress ||
                err->code == ERR_InterruptedAtShutdown;
    if (!lost || op->killed) return false;
    replica_set_report(s, *host, err);
    if (!(idempotent || surely_not_run(err, *sent.may_have_run))) return false;
    if (error_is_not_primary(err->code) && loop_now_ms(op->loop) + pause < patience_ends) {
      if (!op_sleep(op, pause, err)) return false;
      pause = pause * 2 < HANDOVER_MAX_PAUSE_MS ? pause * 2 : HANDOVER_MAX_PAUSE_MS;
      attempt--;
    } else if (attempt == MAX_ATTEMPTS) {
      return false;
    }
  }
}

bool replica_set_call_primary(struct operation *op, struct replica_set *s, const char *db, const bson_t *body,
                              int64_t timeout_ms, bool idempotent, const bson_t **reply, struct error *err) {
  struct remote_command cmd = {.db = db, .body = body, .timeout_ms = timeout_ms};
  const bson_t *ignored;
  const char *host;
  return replica_set_call(op, s, READ_PRIMARY, NULL, idempotent, &cmd, reply ? reply : &ignored, &host, err);
}
