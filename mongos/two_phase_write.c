// A statement of an update or delete command in two phases.
#include <string.h>

#include "common/bson/doc.h"
#include "mongos/two_phase.h"
#include "mongos/write_error.h"

struct two_phase {
  struct request *r;
  const struct write_command *w;
  const struct write_statement *s;
  const struct placement *p;
  struct write_query q;
};

// The client's statement with another filter, and an upsert only where `upsert` says so.
static const bson_t *statement_with(const struct two_phase *t, const bson_t *filter, const bson_t *update,
                                    bool upsert) {
  bson_t *to = arena_bson(t->r->op->arena);
  bson_iter_t it;
  bson_append_document(to, "q", -1, filter);
  for (bool more = bson_iter_init(&it, &t->q.statement); more && bson_iter_next(&it);) {
    const char *name = bson_iter_key(&it);
    if (strcmp(name, "q") == 0 || strcmp(name, "upsert") == 0) continue;
    if (update != NULL && (strcmp(name, "u") == 0 || strcmp(name, "arrayFilters") == 0)) continue;
    doc_append_iter(to, NULL, &it);
  }
  if (update != NULL) bson_append_document(to, "u", -1, update);
  if (upsert) bson_append_bool(to, "upsert", -1, true);
  return to;
}

static bson_t *command_for(const struct two_phase *t) {
  bson_t *body = arena_bson(t->r->op->arena);
  bson_concat(body, t->w->base);
  if (t->r->has_txn_number) {
    bson_t ids;
    bson_append_array_begin(body, "stmtIds", -1, &ids);
    bson_append_int32(&ids, "0", 1, t->s->stmt_id);
    bson_append_array_end(body, &ids);
  }
  return body;
}

static void make_sequence(const struct two_phase *t, const bson_t *statement, struct sequence *out) {
  *out = (struct sequence){
      .name = write_statements_field(t->w->kind), .data = bson_get_data(statement), .len = statement->len, .count = 1};
}

// Sends one statement to one shard. false: it failed, as a whole or by its own error.
static bool send_statement(const struct two_phase *t, const struct target *target, const bson_t *statement,
                           const bson_t **reply, struct error *err) {
  struct sequence sequence;
  make_sequence(t, statement, &sequence);
  struct shard_call call = {
      .target = *target, .body = command_for(t), .sequences = &sequence, .n_sequences = 1, .db = t->w->db};
  shard_call_run(t->r, t->r->op, &call, CALL_WRITE);
  if (!call.ok) {
    *err = call.err;
    return false;
  }
  *reply = call.reply;
  return !write_error_first(t->r->op->arena, call.reply, err);
}

// Asks all shards for their record of this statement. *reply NULL: none has one.
static bool probe(const struct two_phase *t, const bson_t **reply, const char **shard, struct error *err) {
  struct arena *a = t->r->op->arena;
  struct target *targets;
  struct sequence sequence;
  make_sequence(t, statement_with(t, two_phase_no_match(a), NULL, false), &sequence);
  size_t n = placement_all(a, t->p, &targets);
  struct shard_call *calls = shard_calls_new(a, targets, n, command_for(t));
  for (size_t i = 0; i < n; i++) {
    calls[i].db = t->w->db;
    calls[i].sequences = &sequence;
    calls[i].n_sequences = 1;
  }
  shard_calls_run(t->r, t->r->op, calls, n, CALL_WRITE);
  *reply = NULL;
  if (!shard_calls_ok(router_of(t->r), t->p, calls, n, err)) return false;
  for (size_t i = 0; i < n; i++) {
    if (write_error_first(a, calls[i].reply, err)) return false;
    if (!reply_is_retried(calls[i].reply) && doc_i64(calls[i].reply, "n", 0) == 0) continue;
    *reply = calls[i].reply;
    *shard = calls[i].target.shard;
  }
  return true;
}

static bool upsert(const struct two_phase *t, const struct filter_spec *f, const bson_t **reply, const char **shard,
                   struct error *err) {
  bson_t array_filters;
  bool has = doc_doc(&t->q.statement, "arrayFilters", &array_filters);
  struct upsert_document u;
  struct arena *a = t->r->op->arena;
  if (!two_phase_upsert(a, t->p, f, &t->q.update, has ? &array_filters : NULL, &u, err)) return false;
  *shard = u.target.shard;
  return send_statement(t, &u.target, statement_with(t, u.filter, u.doc, true), reply, err);
}

bool two_phase_write(struct request *r, const struct write_command *w, size_t op, const struct placement *p,
                     struct write_result *out, struct error *err) {
  struct two_phase t = {.r = r, .w = w, .s = &w->statements[op], .p = p};
  if (!write_query_parse(w->kind, t.s, &t.q, err)) return false;
  struct filter_spec f = {.filter = &t.q.filter, .options = &t.q.statement, .command = w->base};
  bson_t sort;
  bool sorted = doc_doc(&t.q.statement, "sort", &sort) && !bson_empty(&sort);
  const bson_t *reply = NULL;
  const char *shard = NULL;
  if (r->has_txn_number && !probe(&t, &reply, &shard, err)) return false;
  for (int tries = 0; reply == NULL; tries++) {
    if (tries == TWO_PHASE_TRIES) {
      return error_set(err, ERR_WriteConflict, "the document that was found had changed at each of %d tries", tries);
    }
    struct found_document d;
    if (!two_phase_find(r, p, &f, sorted ? &sort : NULL, &d, err)) return false;
    if (!d.found && !t.q.upsert) return true; // nothing to do: n 0
    if (!d.found) {
      if (!upsert(&t, &f, &reply, &shard, err)) return false;
      break;
    }
    const bson_t *filter = two_phase_filter(r->op->arena, &t.q.filter, &d);
    if (!send_statement(&t, &d.target, statement_with(&t, filter, NULL, false), &reply, err)) return false;
    shard = d.target.shard;
    if (doc_i64(reply, "n", 0) == 0) reply = NULL; // changed between the phases
  }
  write_result_add(out, reply, &op, 1, shard);
  return true;
}
