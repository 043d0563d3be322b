// Hears of changes of a member at once: a fiber a member holds a hello there that is answered when the member's role,
// primary or configuration changes (topology.h). Members that give no topologyVersion are only polled.
#include <stdlib.h>

#include "common/bson/doc.h"
#include "common/net/replica_set_internal.h"

enum { AWAIT_MS = 10000, GRACE_MS = 2000, PAUSE_MS = 500, BETWEEN_MS = 10 };

void await_take_version(struct member *m, const bson_t *hello) {
  bson_t version;
  bson_destroy(m->topology);
  m->topology = doc_doc(hello, "topologyVersion", &version) ? bson_copy(&version) : NULL;
}

// One held hello. false: the operation ends.
static bool hold(struct operation *op, struct member *m) {
  struct replica_set *s = m->set;
  bson_t *hello = arena_bson(op->arena);
  BSON_APPEND_INT32(hello, "hello", 1);
  BSON_APPEND_DOCUMENT(hello, "topologyVersion", m->topology);
  BSON_APPEND_INT32(hello, "maxAwaitTimeMS", AWAIT_MS);
  struct remote_command cmd = {.db = "admin", .body = hello, .timeout_ms = AWAIT_MS + GRACE_MS};
  const bson_t *reply = NULL;
  struct error err = {0};
  m->holding = true;
  bool ok = remote_call(op, s->remotes, m->host, &cmd, &reply, &err);
  m->holding = false;
  if (op->killed) return false;
  if (ok) {
    member_take_hello(m, reply, -1);
    return op_sleep(op, BETWEEN_MS, &err); // whatever it answers, and however soon
  }
  bson_destroy(m->topology);
  m->topology = NULL; // known again when the member answers
  member_look(m);
  return op_sleep(op, PAUSE_MS, &err);
}

static void await_changes(struct operation *op, void *arg) {
  struct member *m = arg;
  struct error err;
  bool timed_out;
  while (!m->set->closing && !m->gone) {
    arena_reset(op->arena);
    if (m->topology ? !hold(op, m) : !event_wait_for(op, &m->set->changed, AWAIT_MS, &timed_out, &err) && !timed_out)
      break;
  }
  m->await_op = NULL;
  replica_set_unref(m->set);
}

void await_start(struct member *m) {
  m->set->refs++;
  m->await_op = operation_start(m->set->loop, "ReplicaSetMonitor", await_changes, m);
}
