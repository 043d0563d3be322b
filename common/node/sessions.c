// The gate of retryable writes. See sessions.h.
#include "common/node/sessions.h"

#include <string.h>

#include "common/base/map.h"
#include "common/bson/doc.h"
#include "common/node/internal.h"

struct gate {
  bool busy;
  size_t waiting;
  struct event opened;
  uint64_t proposed; // log index up to which the last command proposed
};

struct held_gate {
  struct node *node;
  struct gate *gate;
  uint8_t lsid[16];
};

// A gate nobody uses is kept only while something that passed it may not be applied yet.
static void open_gate(void *arg) {
  struct held_gate *h = arg;
  h->gate->busy = false;
  event_signal(&h->gate->opened);
  if (h->gate->waiting || h->gate->proposed > repl_last_applied(h->node->repl).index) return;
  map_remove(h->node->own->gates, h->lsid, sizeof h->lsid);
  free(h->gate);
}

static bool wait_for_gate(struct request *r, struct gate *g, struct error *err) {
  g->waiting++;
  while (g->busy) {
    if (event_wait(r->op, &g->opened, err)) continue;
    g->waiting--;
    return false;
  }
  g->waiting--;
  g->busy = true;
  return true;
}

bool session_enter(struct request *r, struct arena *a, struct error *err) {
  struct node *n = request_node(r);
  struct gate *g = map_get(n->own->gates, r->lsid, sizeof r->lsid);
  if (!g) {
    g = calloc(1, sizeof *g);
    map_put(n->own->gates, r->lsid, sizeof r->lsid, g);
  }
  if (!wait_for_gate(r, g, err)) return false;
  struct held_gate *h = arena_zalloc(a, sizeof *h);
  h->node = n;
  h->gate = g;
  memcpy(h->lsid, r->lsid, sizeof h->lsid);
  arena_on_free(a, open_gate, h);
  if (g->proposed > repl_last_applied(n->repl).index && !repl_barrier(r->op, n->repl, err)) return false;
  g->proposed = 0;
  int64_t newest = store_session_txn_number(n->store, r->lsid);
  if (newest > r->txn_number) {
    return error_set(err, ERR_TransactionTooOld,
                     "Retryable write with txnNumber %lld is prohibited on session %s because a newer retryable write "
                     "with txnNumber %lld has already started on this session.",
                     (long long)r->txn_number, doc_text(r->op->arena, &r->lsid_doc), (long long)newest);
  }
  return true;
}

void session_proposed(struct request *r, uint64_t index) {
  struct gate *g = map_get(request_node(r)->own->gates, r->lsid, sizeof r->lsid);
  if (g && index > g->proposed) g->proposed = index;
}

const bson_t *session_answer(struct request *r, struct arena *a, int32_t stmt_id) {
  return store_session_statement(request_node(r)->store, a, r->lsid, r->txn_number, stmt_id);
}

void session_statement_ids(struct arena *a, const bson_t *command, struct statement_ids *out) {
  *out = (struct statement_ids){.first = (int32_t)doc_i64(command, "stmtId", 0)};
  bson_iter_t it, id;
  if (!doc_get(command, "stmtIds", &it) || !BSON_ITER_HOLDS_ARRAY(&it)) return;
  const bson_t *array = iter_child(a, &it);
  int32_t *list = arena_alloc(a, (bson_count_keys(array) + 1) * sizeof *list);
  bson_iter_init(&id, array);
  while (bson_iter_next(&id)) list[out->n_given++] = (int32_t)iter_i64(&id);
  out->given = list;
}

int32_t session_statement_id(const struct statement_ids *ids, size_t i) {
  return i < ids->n_given ? ids->given[i] : ids->first + (int32_t)i;
}

void sessions_free(struct node *n) {
  map_free(n->own->gates, free);
  n->own->gates = NULL;
}
