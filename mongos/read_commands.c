// The table of the reading commands; getMore and killCursors.
#include "mongos/read_commands.h"

#include <string.h>

#include "common/bson/doc.h"
#include "mongos/router_cursor.h"

static bool run_get_more(struct request *r, bson_t *reply, struct error *err) {
  if (!iter_is_number(&r->first)) {
    return error_set(err, ERR_TypeMismatch, "BSON field 'getMore.getMore' is the wrong type, expected type 'long'");
  }
  const char *collection;
  if (!request_required_str(r, "collection", &collection, err)) return false;
  int64_t batch_size = doc_i64(r->body, "batchSize", -1);
  if (doc_has(r->body, "batchSize") && batch_size < 0) {
    return error_set(err, ERR_BadValue, "BSON field 'batchSize' value must be >= 0, actual value '%" PRId64 "'",
                     batch_size);
  }
  if (batch_size == 0) batch_size = -1; // in a getMore: no preference
  const char *ns = arena_printf(r->op->arena, "%s.%s", r->db, collection);
  return cursor_get_more(r, iter_i64(&r->first), ns, batch_size, reply, err);
}

static void append_ids(bson_t *reply, const char *name, const int64_t *ids, size_t n) {
  bson_t array;
  bson_append_array_begin(reply, name, -1, &array);
  for (size_t i = 0; i < n; i++) {
    char text[16];
    const char *key;
    size_t len = bson_uint32_to_string((uint32_t)i, &key, text, sizeof text);
    bson_append_int64(&array, key, (int)len, ids[i]);
  }
  bson_append_array_end(reply, &array);
}

static bool run_kill_cursors(struct request *r, bson_t *reply, struct error *err) {
  bson_t ids;
  if (!request_required_doc(r, "cursors", &ids, err)) return false;
  size_t n = bson_count_keys(&ids), n_killed = 0, n_missing = 0;
  int64_t *killed = arena_alloc(r->op->arena, (n + 1) * sizeof *killed);
  int64_t *missing = arena_alloc(r->op->arena, (n + 1) * sizeof *missing);
  bson_iter_t it;
  for (bool more = bson_iter_init(&it, &ids); more && bson_iter_next(&it);) {
    if (!iter_is_number(&it)) return error_set(err, ERR_TypeMismatch, "killCursors: cursor ids must be numbers");
    int64_t id = iter_i64(&it);
    if (cursor_kill(router_of(r), id) == CURSOR_KILLED) {
      killed[n_killed++] = id;
    } else {
      missing[n_missing++] = id;
    }
  }
  append_ids(reply, "cursorsKilled", killed, n_killed);
  append_ids(reply, "cursorsNotFound", missing, n_missing);
  append_ids(reply, "cursorsAlive", NULL, 0);
  append_ids(reply, "cursorsUnknown", NULL, 0);
  return true;
}

const struct command router_read_commands[] = {
    {"find", NULL, CMD_READ, run_find, "documents that match a filter, as a cursor"},
    {"getMore", NULL, CMD_READ, run_get_more, "the next batch of a cursor"},
    {"killCursors", NULL, CMD_READ, run_kill_cursors, "ends cursors"},
    {"count", NULL, CMD_READ, run_count, "how many documents match"},
    {"distinct", NULL, CMD_READ, run_distinct, "the different values of a field"},
    {"aggregate", NULL, CMD_READ, run_aggregate, "runs a pipeline"},
    {"explain", NULL, CMD_READ, run_explain, "how a command is routed and planned"},
    {NULL, NULL, 0, NULL, NULL},
};
