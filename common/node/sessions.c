// Records of retryable writes. See sessions.h.
#include "common/node/sessions.h"

#include "common/bson/doc.h"
#include "common/node/internal.h"
#include "common/sharding/chunk_map.h"

bool session_txn_is_current(struct request *r, struct error *err) {
  int64_t newest = store_session_txn_number(request_node(r)->store, r->lsid);
  if (newest <= r->txn_number) return true;
  return error_set(
      err, ERR_TransactionTooOld,
      "Retryable write with txnNumber %lld is prohibited on session %s because a newer retryable write with "
      "txnNumber %lld has already started on this session.",
      (long long)r->txn_number, doc_text(r->op->arena, &r->lsid_doc), (long long)newest);
}

const bson_t *session_answer(struct request *r, struct arena *a, int32_t stmt_id) {
  return store_session_statement(request_node(r)->store, a, r->lsid, r->txn_number, stmt_id);
}

bool session_moved_away(struct request *r, const struct access *x, struct arena *a, int32_t stmt_id) {
  struct key key;
  return x->filtered && x->owner_map &&
         store_session_key(request_node(r)->store, a, r->lsid, r->txn_number, stmt_id, &key) &&
         !chunk_map_owned_by(x->owner_map, key, x->shard);
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
  return i < ids->n_given ? ids->given[i] : (int32_t)((uint32_t)ids->first + (uint32_t)i); // may wrap, clients choose
}
