// How every command answers, and how an answer is read.
#include "proto/reply.h"

#include <string.h>

#include "common/bson/doc.h"

void reply_ok(bson_t *reply) {
  BSON_APPEND_DOUBLE(reply, "ok", 1.0);
}

// Appends the fields of `extra`, but for those that are there already under the same name.
static void append_extra(bson_t *to, const bson_t *extra) {
  bson_iter_t it;
  if (!extra || !bson_iter_init(&it, extra)) return;
  while (bson_iter_next(&it)) {
    if (!doc_has(to, bson_iter_key(&it))) doc_append_iter(to, bson_iter_key(&it), &it);
  }
}

void reply_error(bson_t *reply, const struct error *err) {
  char name[24];
  bson_reinit(reply);
  BSON_APPEND_DOUBLE(reply, "ok", 0.0);
  BSON_APPEND_UTF8(reply, "errmsg", err->message);
  BSON_APPEND_INT32(reply, "code", err->code);
  BSON_APPEND_UTF8(reply, "codeName", error_code_name(err->code, name));
  append_extra(reply, err->extra);
}

bool reply_errmsg_only(bson_t *reply, const char *text) {
  BSON_APPEND_DOUBLE(reply, "ok", 0.0);
  BSON_APPEND_UTF8(reply, "errmsg", text);
  return true;
}

static bool is_gossip(const char *name) {
  static const char *const names[] = {"ok",           "errmsg",        "code",        "codeName",
                                      "$clusterTime", "operationTime", "$configTime", "$topologyTime"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    if (!strcmp(name, names[i])) return true;
  }
  return false;
}

// What an error says besides its code and text; NULL when nothing.
static const bson_t *extra_fields(const bson_t *reply, struct arena *a) {
  bson_t *extra = NULL;
  bson_iter_t it;
  if (!bson_iter_init(&it, reply)) return NULL;
  while (bson_iter_next(&it)) {
    if (is_gossip(bson_iter_key(&it))) continue;
    if (!extra) extra = arena_bson(a);
    doc_append_iter(extra, bson_iter_key(&it), &it);
  }
  return extra;
}

bool reply_check(const bson_t *reply, struct arena *a, struct error *err) {
  if (doc_bool(reply, "ok", false)) return true;
  // A reply without a code is of the older commands; whoever throws it on says UnknownError (reference/commands.md 1).
  int32_t code = (int32_t)doc_i64(reply, "code", ERR_UnknownError);
  (void)error_set(err, code ? code : ERR_UnknownError, "%s",
                  doc_str(reply, "errmsg", "the reply has neither ok: 1 nor an errmsg"));
  if (err) err->extra = extra_fields(reply, a);
  return false;
}

void reply_append_write_error(bson_t *array, uint32_t at, int32_t index, const struct error *err) {
  char key_buf[16];
  const char *key;
  bson_t e;
  size_t n = bson_uint32_to_string(at, &key, key_buf, sizeof key_buf);
  bson_append_document_begin(array, key, (int)n, &e);
  BSON_APPEND_INT32(&e, "index", index);
  BSON_APPEND_INT32(&e, "code", err->code);
  BSON_APPEND_UTF8(&e, "errmsg", err->message);
  append_extra(&e, err->extra);
  bson_append_document_end(array, &e);
}
