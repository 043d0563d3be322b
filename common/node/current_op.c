// currentOp and killOp.
#include "common/node/current_op.h"

#include <string.h>

#include "common/base/clock.h"
#include "common/bson/doc.h"
#include "common/node/commands.h"
#include "common/node/cursors.h"
#include "common/node/internal.h"
#include "common/query/match.h"

struct listing {
  struct node *node;
  bson_t *array;
  uint32_t n;
};

static const char *next_key(struct listing *l, char text[16]) {
  const char *key;
  bson_uint32_to_string(l->n++, &key, text, 16);
  return key;
}

static bool append_operation(void *ctx, struct operation *op) {
  struct listing *l = ctx;
  char text[16];
  bson_t doc;
  int64_t age_us = clock_mono_us() - op->slice_start_us;
  BSON_APPEND_DOCUMENT_BEGIN(l->array, next_key(l, text), &doc);
  BSON_APPEND_UTF8(&doc, "type", "op");
  BSON_APPEND_UTF8(&doc, "host", l->node->host_port);
  BSON_APPEND_UTF8(&doc, "desc", op->what ? op->what : "");
  BSON_APPEND_BOOL(&doc, "active", true);
  doc_append_num(&doc, "opid", (int64_t)op->id);
  BSON_APPEND_UTF8(&doc, "op", "command");
  BSON_APPEND_BOOL(&doc, "waitingForLock", op->waiting != NULL);
  BSON_APPEND_INT64(&doc, "microsecs_since_scheduled", age_us);
  BSON_APPEND_BOOL(&doc, "killPending", op->killed != 0);
  bson_append_document_end(l->array, &doc);
  return true;
}

static bool append_cursor(void *ctx, const struct cursor *c) {
  struct listing *l = ctx;
  char text[16];
  bson_t doc, cursor;
  if (c->user) return true;
  BSON_APPEND_DOCUMENT_BEGIN(l->array, next_key(l, text), &doc);
  BSON_APPEND_UTF8(&doc, "type", "idleCursor");
  BSON_APPEND_UTF8(&doc, "host", l->node->host_port);
  BSON_APPEND_UTF8(&doc, "ns", c->ns);
  BSON_APPEND_DOCUMENT_BEGIN(&doc, "cursor", &cursor);
  BSON_APPEND_INT64(&cursor, "cursorId", c->id);
  BSON_APPEND_DATE_TIME(&cursor, "createdDate", c->created_wall_ms);
  BSON_APPEND_INT64(&cursor, "nDocsReturned", c->returned);
  BSON_APPEND_BOOL(&cursor, "noCursorTimeout", c->no_timeout);
  BSON_APPEND_DOCUMENT(&cursor, "originatingCommand", c->command);
  bson_append_document_end(&doc, &cursor);
  bson_append_document_end(l->array, &doc);
  return true;
}

void current_ops(struct node *n, bool idle_cursors, bson_t *array) {
  struct listing l = {.node = n, .array = array};
  operations_each(n->loop, append_operation, &l);
  if (idle_cursors) cursors_each(n, append_cursor, &l);
}

bool current_op_run(struct request *r, bson_t *reply, struct error *err) {
  bson_t *array = arena_bson(r->op->arena);
  current_ops(request_node(r), doc_bool(r->body, "$all", false), array);
  BSON_APPEND_ARRAY(reply, "inprog", array);
  return true;
}

bool kill_op_run(struct request *r, bson_t *reply, struct error *err) {
  bson_iter_t it;
  if (!doc_get(r->body, "op", &it) || !iter_is_number(&it)) {
    return error_set(err, ERR_TypeMismatch, "Field 'op' must be the number of an operation");
  }
  struct operation *op = operation_find(r->op->loop, (uint64_t)iter_i64(&it));
  if (op) operation_kill(op, ERR_Interrupted);
  BSON_APPEND_UTF8(reply, "info", "attempting to kill op");
  return true;
}
