// What became of a batch of writes: the children's replies summed up, in the numbers of the client's statements.
#include <stdlib.h>
#include <string.h>

#include "common/base/map.h"
#include "common/bson/doc.h"
#include "mongos/write_command.h"
#include "proto/reply.h"

// Texts of errors are left out once this much was emitted, after the second error.
enum { ERROR_TEXT_MAX_BYTES = 1024 * 1024 };

void write_result_init(struct write_result *x, struct arena *a) {
  *x = (struct write_result){.arena = a};
}

void write_result_upserted(struct write_result *x, size_t index, const bson_value_t *id) {
  x->upserted = arena_grow(x->arena, x->upserted, x->n_upserted, &x->cap_upserted, sizeof *x->upserted);
  x->upserted[x->n_upserted].index = index;
  x->upserted[x->n_upserted++].id = value_copy(x->arena, id);
}

static void free_map(void *map) {
  map_free(map, NULL);
}

void write_result_error(struct write_result *x, size_t index, const struct error *err) {
  if (x->error_places == NULL) {
    x->error_places = map_new();
    arena_on_free(x->arena, free_map, x->error_places);
  }
  uintptr_t place = (uintptr_t)map_get(x->error_places, &index, sizeof index); // 0 = none, else 1 + number
  if (place > 0) {
    struct error *known = &x->errors[place - 1].error;
    struct error first = *known;
    error_set(known, ERR_MultipleErrorsOccurred, "multiple errors for op : %.400s :: and :: %.400s", first.message,
              err->message);
    return;
  }
  x->errors = arena_grow(x->arena, x->errors, x->n_errors, &x->cap_errors, sizeof *x->errors);
  x->errors[x->n_errors].index = index;
  error_copy(&x->errors[x->n_errors++].error, err, x->arena);
  map_put(x->error_places, &index, sizeof index, (void *)(uintptr_t)x->n_errors);
}

static void add_upserted(struct write_result *x, const bson_t *reply, const size_t *ops, size_t n_ops) {
  bson_t list;
  bson_iter_t it;
  if (!doc_doc(reply, "upserted", &list) || !bson_iter_init(&it, &list)) return;
  while (bson_iter_next(&it)) {
    bson_t entry;
    bson_value_t id;
    iter_doc(&entry, &it);
    int64_t index = doc_i64(&entry, "index", -1);
    if (index < 0 || (size_t)index >= n_ops || !doc_value(&entry, "_id", &id)) continue;
    write_result_upserted(x, ops[index], &id);
  }
}

static void add_concern_error(struct write_result *x, const bson_t *reply, const char *shard) {
  bson_t doc;
  if (!doc_doc(reply, "writeConcernError", &doc)) return;
  x->concern_errors =
      arena_grow(x->arena, x->concern_errors, x->n_concern_errors, &x->cap_concern_errors, sizeof *x->concern_errors);
  x->concern_errors[x->n_concern_errors++] =
      (struct write_concern_error){.shard = arena_strdup(x->arena, shard),
                                   .code = (int32_t)doc_i64(&doc, "code", ERR_WriteConcernFailed),
                                   .doc = doc_copy(x->arena, &doc)};
}

void write_result_add(struct write_result *x, const bson_t *reply, const size_t *ops, size_t n_ops, const char *shard) {
  bson_t retried;
  bson_iter_t it;
  x->n += doc_i64(reply, "n", 0);
  x->n_modified += doc_i64(reply, "nModified", 0);
  add_upserted(x, reply, ops, n_ops);
  add_concern_error(x, reply, shard != NULL ? shard : "config");
  if (!doc_doc(reply, "retriedStmtIds", &retried) || !bson_iter_init(&it, &retried)) return;
  while (bson_iter_next(&it)) {
    x->retried = arena_grow(x->arena, x->retried, x->n_retried, &x->cap_retried, sizeof *x->retried);
    x->retried[x->n_retried++] = (int32_t)iter_i64(&it);
  }
}

void write_result_take_concern_errors(struct write_result *x, const struct write_result *from) {
  for (size_t i = 0; i < from->n_concern_errors; i++) {
    x->concern_errors =
        arena_grow(x->arena, x->concern_errors, x->n_concern_errors, &x->cap_concern_errors, sizeof *x->concern_errors);
    x->concern_errors[x->n_concern_errors++] = from->concern_errors[i];
  }
}

// --- the client's reply ---

static int compare_errors(const void *a, const void *b) {
  size_t x = ((const struct write_error *)a)->index, y = ((const struct write_error *)b)->index;
  return x < y ? -1 : x > y;
}

static void append_key(uint32_t i, char text[16], const char **key) {
  bson_uint32_to_string(i, key, text, 16);
}

static void append_upserted(const struct write_result *x, bson_t *reply) {
  if (x->n_upserted == 0) return;
  bson_t array;
  bson_append_array_begin(reply, "upserted", -1, &array);
  for (size_t i = 0; i < x->n_upserted; i++) {
    char text[16];
    const char *key;
    bson_t entry;
    append_key((uint32_t)i, text, &key);
    bson_append_document_begin(&array, key, -1, &entry);
    bson_append_int32(&entry, "index", -1, (int32_t)x->upserted[i].index);
    doc_append_value(&entry, "_id", &x->upserted[i].id);
    bson_append_document_end(&array, &entry);
  }
  bson_append_array_end(reply, &array);
}

static void append_errors(struct write_result *x, bool ordered, bson_t *reply) {
  if (x->n_errors == 0) return;
  qsort(x->errors, x->n_errors, sizeof *x->errors, compare_errors);
  size_t n = ordered ? 1 : x->n_errors, text_bytes = 0;
  bson_t array;
  bson_append_array_begin(reply, "writeErrors", -1, &array);
  for (size_t i = 0; i < n; i++) {
    struct error *e = &x->errors[i].error;
    if (i >= 2 && text_bytes >= ERROR_TEXT_MAX_BYTES) e->message[0] = 0;
    text_bytes += strlen(e->message);
    reply_append_write_error(&array, (uint32_t)i, (int32_t)x->errors[i].index, e);
  }
  bson_append_array_end(reply, &array);
}

void write_result_append_concern_error(const struct write_result *x, bson_t *reply) {
  if (x->n_concern_errors == 0) return;
  const struct write_concern_error *first = &x->concern_errors[0];
  int32_t code = x->n_concern_errors == 1 ? first->code : ERR_WriteConcernFailed;
  struct buf text __attribute__((cleanup(buf_cleanup))) = {0};
  if (x->n_concern_errors > 1) buf_printf(&text, "Multiple errors reported :: ");
  for (size_t i = 0; i < x->n_concern_errors; i++) {
    const struct write_concern_error *e = &x->concern_errors[i];
    buf_printf(&text, "%s%s at %s", i > 0 ? " :: and :: " : "", doc_str(e->doc, "errmsg", ""), e->shard);
  }
  char name[24];
  bson_t doc, info;
  bson_append_document_begin(reply, "writeConcernError", -1, &doc);
  bson_append_int32(&doc, "code", -1, code);
  bson_append_utf8(&doc, "codeName", -1, error_code_name(code, name), -1);
  bson_append_utf8(&doc, "errmsg", -1, buf_str(&text), -1);
  if (x->n_concern_errors == 1 && doc_doc(first->doc, "errInfo", &info)) {
    bson_append_document(&doc, "errInfo", -1, &info);
  }
  bson_append_document_end(reply, &doc);
}

static void append_retried(const struct write_result *x, bson_t *reply) {
  if (x->n_retried == 0) return;
  bson_t array;
  bson_append_array_begin(reply, "retriedStmtIds", -1, &array);
  for (size_t i = 0; i < x->n_retried; i++) {
    char text[16];
    const char *key;
    append_key((uint32_t)i, text, &key);
    bson_append_int32(&array, key, -1, x->retried[i]);
  }
  bson_append_array_end(reply, &array);
}

void write_result_append(struct write_result *x, enum write_kind kind, bool ordered, bson_t *reply) {
  if (kind == WRITE_UPDATE) doc_append_num(reply, "nModified", x->n_modified);
  doc_append_num(reply, "n", x->n);
  append_upserted(x, reply);
  append_errors(x, ordered, reply);
  write_result_append_concern_error(x, reply);
  append_retried(x, reply);
}
