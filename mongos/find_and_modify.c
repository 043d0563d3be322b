// findAndModify: to the one shard that can have the document, or in two phases (two_phase.h).
#include <string.h>

#include "common/bson/doc.h"
#include "mongos/body.h"
#include "mongos/forward.h"
#include "mongos/two_phase.h"
#include "mongos/write_commands.h"

struct modify_job {
  struct request *r;
  bson_t query, sort;
  bool has_sort, upsert;
  bson_t *reply;
};

static bool ask(const struct modify_job *j, const struct target *target, bson_t *body, const bson_t **reply,
                struct error *err) {
  struct shard_call call = {.target = *target, .body = body};
  shard_call_run(j->r, j->r->op, &call, CALL_WRITE);
  *reply = call.reply;
  if (!call.ok) *err = call.err;
  return call.ok;
}

// The client's command with another query, and what belongs to an upsert only where `update` is the new document.
static bson_t *with_query(const struct modify_job *j, const bson_t *query, const bson_t *update) {
  static const char *const queried[] = {"query", "upsert", NULL};
  static const char *const inserted[] = {"query", "upsert", "update", "arrayFilters", "sort", NULL};
  bson_t *body = forward_body(j->r, update != NULL ? inserted : queried);
  bson_append_document(body, "query", -1, query);
  if (update == NULL) return body;
  bson_append_document(body, "update", -1, update);
  bson_append_bool(body, "upsert", -1, true);
  return body;
}

static bool touched_something(const bson_t *reply) {
  bson_t last;
  return doc_doc(reply, "lastErrorObject", &last) && doc_i64(&last, "n", 0) > 0;
}

// Asks all shards for their record of this statement. *reply NULL: none has one.
static bool probe(const struct modify_job *j, const struct placement *p, const bson_t **reply, struct error *err) {
  struct arena *a = j->r->op->arena;
  struct target *targets;
  size_t n = placement_all(a, p, &targets);
  struct shard_call *calls = shard_calls_new(a, targets, n, with_query(j, two_phase_no_match(a), NULL));
  shard_calls_run(j->r, j->r->op, calls, n, CALL_WRITE);
  *reply = NULL;
  if (!shard_calls_ok(router_of(j->r), p, calls, n, err)) return false;
  for (size_t i = 0; i < n; i++) {
    if (reply_is_retried(calls[i].reply) || touched_something(calls[i].reply)) *reply = calls[i].reply;
  }
  return true;
}

static bool upsert(const struct modify_job *j, const struct placement *p, const struct filter_spec *f,
                   const bson_t **reply, struct error *err) {
  bson_value_t update;
  bson_t array_filters;
  bool has = doc_doc(j->r->body, "arrayFilters", &array_filters);
  struct upsert_document u;
  if (!doc_value(j->r->body, "update", &update)) {
    return error_set(err, ERR_FailedToParse, "Either an update or remove=true must be specified");
  }
  if (!two_phase_upsert(j->r->op->arena, p, f, &update, has ? &array_filters : NULL, &u, err)) return false;
  return ask(j, &u.target, with_query(j, u.filter, u.doc), reply, err);
}

static void reply_nothing(const struct modify_job *j) {
  bson_t last;
  bson_append_document_begin(j->reply, "lastErrorObject", -1, &last);
  bson_append_int32(&last, "n", -1, 0);
  if (!doc_bool(j->r->body, "remove", false)) bson_append_bool(&last, "updatedExisting", -1, false);
  bson_append_document_end(j->reply, &last);
  bson_append_null(j->reply, "value", -1);
}

static bool in_two_phases(const struct modify_job *j, const struct placement *p, const struct filter_spec *f,
                          struct error *err) {
  const bson_t *reply = NULL;
  if (j->r->has_txn_number && !probe(j, p, &reply, err)) return false;
  for (int tries = 0; reply == NULL; tries++) {
    if (tries == TWO_PHASE_TRIES) {
      return error_set(err, ERR_WriteConflict, "the document that was found had changed at each of %d tries", tries);
    }
    struct found_document d;
    if (!two_phase_find(j->r, p, f, j->has_sort ? &j->sort : NULL, &d, err)) return false;
    if (!d.found && !j->upsert) {
      reply_nothing(j);
      return true;
    }
    if (!d.found) {
      if (!upsert(j, p, f, &reply, err)) return false;
      break;
    }
    const bson_t *query = two_phase_filter(j->r->op->arena, &j->query, &d);
    if (!ask(j, &d.target, with_query(j, query, NULL), &reply, err)) return false;
    if (!touched_something(reply)) reply = NULL; // changed between the phases
  }
  forward_reply(j->reply, reply);
  return true;
}

static bool modify_attempt(struct operation *op, struct router *rt, const struct placement *p, void *ctx,
                           struct error *err) {
  struct modify_job *j = ctx;
  struct filter_spec f = {.filter = &j->query, .options = j->r->body, .command = j->r->body};
  struct target *targets;
  size_t n;
  bool exact;
  if (p->kind == PLACE_NOWHERE) {
    reply_nothing(j);
    return true;
  }
  if (!placement_targets(op->arena, p, &f, &targets, &n, &exact, err)) return false;
  bool one = n == 1 && (exact || !j->upsert || !placement_sharded(p));
  if (!one) return in_two_phases(j, p, &f, err);
  const bson_t *reply;
  if (!ask(j, targets, forward_body(j->r, NULL), &reply, err)) return false;
  forward_reply(j->reply, reply);
  return true;
}

bool run_find_and_modify(struct request *r, bson_t *reply, struct error *err) {
  struct modify_job j = {.r = r, .reply = reply};
  if (!request_needs_collection(r, err)) return false;
  if (database_is_on_config(r->db)) return forward_write_to_config(r, reply, err);
  if (!body_document(r, "query", &j.query, err) || !body_document(r, "sort", &j.sort, err)) return false;
  j.has_sort = !bson_empty(&j.sort);
  j.upsert = doc_bool(r->body, "upsert", false);
  return routed_run(r->op, router_of(r), r->ns, "findAndModify", j.upsert, modify_attempt, &j, err);
}
