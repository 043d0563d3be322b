// Write concerns: what an acknowledged write has to have reached besides a majority's disks.
//
// Whatever was applied is committed, so w:1, "majority" and j hold already. Larger numbers and tags wait for what
// members report after applying. A named mode (settings.getLastErrorModes of the configuration) is a document {tag: n}:
// the members that have the write must have at least n different values of that tag.
#include <string.h>

#include "common/bson/doc.h"
#include "common/repl/repl_internal.h"
#include "common/repl/transport.h"

struct wanted {
  int64_t members;    // 0 = as tagged
  const bson_t *tags; // {tag: n}
};

// Whether this member has what is at `index`; index 0: as if every member had everything.
static bool member_has(const struct repl *r, const char *host, uint64_t index) {
  if (!index) return true;
  if (!strcmp(host, r->self)) return r->applied >= index;
  const struct members *m = consensus_members(r->consensus);
  for (size_t i = 0; i < m->n; i++) {
    if (strcmp(m->list[i].address, host) != 0) continue;
    const struct report *told = transport_report(r->transport, m->list[i].id);
    return told && told->applied >= index;
  }
  return false;
}

static size_t count_members(const struct repl *r, uint64_t index) {
  struct config_walk walk = {0};
  struct config_member m;
  size_t n = 0;
  while (config_next_member(r->config, &walk, &m)) n += member_has(r, m.host, index);
  return n;
}

// How many different values of a tag the members have that have the write.
static int64_t count_values(const struct repl *r, const char *tag, uint64_t index) {
  enum { MOST = 50 };
  const char *values[MOST];
  int64_t n = 0;
  struct config_walk walk = {0};
  struct config_member m;
  while (n < MOST && config_next_member(r->config, &walk, &m)) {
    bson_t doc, tags;
    iter_doc(&doc, &walk.it);
    const char *value = doc_doc(&doc, "tags", &tags) ? doc_str(&tags, tag, NULL) : NULL;
    if (!value || !member_has(r, m.host, index)) continue;
    bool known = false;
    for (int64_t i = 0; i < n; i++) known = known || !strcmp(values[i], value);
    if (!known) values[n++] = value;
  }
  return n;
}

static bool reached(const struct repl *r, const struct wanted *w, uint64_t index) {
  if (w->members) return (int64_t)count_members(r, index) >= w->members;
  bson_iter_t it;
  if (!bson_iter_init(&it, w->tags)) return true;
  while (bson_iter_next(&it)) {
    if (count_values(r, bson_iter_key(&it), index) < iter_i64(&it)) return false;
  }
  return true;
}

// NULL: no such mode. Copied: the configuration may be replaced while somebody waits.
static const bson_t *find_mode(struct arena *a, const struct repl *r, const char *name, struct error *err) {
  bson_t settings, modes, tags;
  if (doc_doc(r->config, "settings", &settings) && doc_doc(&settings, "getLastErrorModes", &modes) &&
      doc_doc(&modes, name, &tags))
    return arena_bson_copy(a, bson_get_data(&tags), tags.len);
  (void)error_set(err, ERR_UnknownReplWriteConcern,
                  "No write concern mode named '%s' found in replica set configuration", name);
  return NULL;
}

// What is asked for. *done: it holds for every write that was applied.
static bool parse(struct arena *a, const struct repl *r, const bson_t *concern, struct wanted *out, bool *done,
                  struct error *err) {
  bson_iter_t w;
  bson_t tags;
  *out = (struct wanted){0};
  *done = !doc_get(concern, "w", &w);
  if (*done) return true;
  if (BSON_ITER_HOLDS_UTF8(&w)) {
    *done = !strcmp(bson_iter_utf8(&w, NULL), "majority");
    return *done || (out->tags = find_mode(a, r, bson_iter_utf8(&w, NULL), err)) != NULL;
  }
  if (BSON_ITER_HOLDS_DOCUMENT(&w)) {
    iter_doc(&tags, &w);
    out->tags = arena_bson_copy(a, bson_get_data(&tags), tags.len);
    return true;
  }
  out->members = iter_i64(&w);
  *done = out->members <= 1;
  return true;
}

static bool wait_for(struct operation *op, struct repl *r, uint64_t index, const struct wanted *w, int64_t timeout_ms,
                     struct error *err) {
  int64_t end = timeout_ms > 0 ? loop_now_ms(op->loop) + timeout_ms : OPERATION_NO_DEADLINE;
  while (!reached(r, w, index)) {
    bool timed_out = false;
    int64_t left = end == OPERATION_NO_DEADLINE ? HEARTBEAT_MS : end - loop_now_ms(op->loop);
    if (left <= 0) return error_set(err, ERR_WriteConcernFailed, "waiting for replication timed out");
    if (!event_wait_for(op, &r->progressed, left < HEARTBEAT_MS ? left : HEARTBEAT_MS, &timed_out, err) && !timed_out)
      return false;
    if (r->stopping) return error_set(err, ERR_ShutdownInProgress, "this member is shutting down");
    if (!r->leading)
      return error_set(err, ERR_PrimarySteppedDown, "Primary stepped down while waiting for replication");
  }
  return true;
}

bool repl_wait_write_concern(struct operation *op, struct repl *r, uint64_t index, const bson_t *concern,
                             struct error *err) {
  struct wanted w;
  bool done;
  if (!r->consensus || !r->config) return true;
  if (!parse(op->arena, r, concern, &w, &done, err)) return false;
  if (done) return true;
  if (!reached(r, &w, 0)) return error_set(err, ERR_UnsatisfiableWriteConcern, "Not enough data-bearing nodes");
  return wait_for(op, r, index, &w, doc_i64(concern, "wtimeout", 0), err);
}
