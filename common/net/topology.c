// Waiting for a change of what hello says. See topology.h.
#include "common/net/topology.h"

#include "common/bson/doc.h"

void topology_init(struct topology *t) {
  bson_oid_init(&t->process, NULL);
}

void topology_bump(struct topology *t) {
  t->counter++;
  event_signal(&t->changed);
}

void topology_append(const struct topology *t, bson_t *reply) {
  bson_t doc;
  BSON_APPEND_DOCUMENT_BEGIN(reply, "topologyVersion", &doc);
  BSON_APPEND_OID(&doc, "processId", &t->process);
  BSON_APPEND_INT64(&doc, "counter", t->counter);
  bson_append_document_end(reply, &doc);
}

static bool parse(const struct request *r, bson_oid_t *process, int64_t *counter, int64_t *ms, bool *given,
                  struct error *err) {
  bson_iter_t version, wait;
  bson_t doc;
  *given = doc_get(r->body, "topologyVersion", &version);
  bool has_wait = doc_get(r->body, "maxAwaitTimeMS", &wait);
  if (*given != has_wait)
    return error_set(err, 31368, "A request with 'topologyVersion' must have 'maxAwaitTimeMS', and the reverse");
  if (!*given) return true;
  if (!BSON_ITER_HOLDS_DOCUMENT(&version))
    return error_set(err, ERR_TypeMismatch, "BSON field 'topologyVersion' is the wrong type, expected type 'object'");
  iter_doc(&doc, &version);
  bson_value_t n;
  if (!doc_oid(&doc, "processId", process) || !doc_value(&doc, "counter", &n) || !value_is_integral(&n, counter) ||
      *counter < 0)
    return error_set(err, ERR_BadValue, "'topologyVersion' needs a processId and a counter of 0 or more");
  if (!iter_is_number(&wait) || iter_i64(&wait) < 0 || iter_i64(&wait) > INT32_MAX)
    return error_set(err, ERR_BadValue, "'maxAwaitTimeMS' must be a non-negative integer");
  *ms = iter_i64(&wait);
  return true;
}

bool topology_await(struct request *r, struct topology *t, struct error *err) {
  bson_oid_t process;
  int64_t counter = 0, ms = 0;
  bool given;
  if (!parse(r, &process, &counter, &ms, &given, err)) return false;
  if (!given || !bson_oid_equal(&process, &t->process)) return true;
  if (counter > t->counter)
    return error_set(err, 31382,
                     "Received a topology version with counter: %lld which is greater than the server "
                     "topology version counter: %lld",
                     (long long)counter, (long long)t->counter);
  int64_t end = loop_now_ms(r->op->loop) + ms;
  bool timed_out = false;
  while (counter == t->counter && !timed_out) {
    int64_t left = end - loop_now_ms(r->op->loop);
    if (left <= 0) break;
    if (!event_wait_for(r->op, &t->changed, left, &timed_out, err) && !timed_out) return false;
  }
  return true;
}
