// Operations of the workloads. See client.h.
#include "tests/chaos/client.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum { PAUSE_AFTER_ERROR_MS = 30, MAX_TIME_MS = 10000, PRIME = 618041 };

int64_t key_number(int64_t n) {
  return (n % KEYS) * PRIME % KEYS;
}

int64_t unique_value(struct worker *w) {
  return (int64_t)(w->id + 1) * 1000000000 + ++w->next_value;
}

static bson_t *json_va(const char *fmt, va_list ap) {
  char *text = NULL;
  bson_error_t why;
  if (vasprintf(&text, fmt, ap) < 0) abort();
  for (char *at = text; *at; at++)
    if (*at == '\'') *at = '"';
  bson_t *doc = bson_new_from_json((const uint8_t *)text, -1, &why);
  if (!doc) {
    (void)fprintf(stderr, "%s: %s\n", text, why.message);
    abort();
  }
  free(text);
  return doc;
}

bson_t *json(const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  bson_t *doc = json_va(fmt, ap);
  va_end(ap);
  return doc;
}

mongoc_collection_t *collection_of(mongoc_client_t *c, const char *load, enum place p) {
  char name[40];
  (void)snprintf(name, sizeof name, "%s_%c", load, p == PLACE_HASHED ? 'h' : 'r');
  return mongoc_client_get_collection(c, CHAOS_DB, name);
}

int64_t doc_number(const bson_t *doc, const char *field) {
  bson_iter_t it;
  return doc && bson_iter_init_find(&it, doc, field) ? bson_iter_as_int64(&it) : 0;
}

enum outcome outcome_of(struct worker *w, const char *kind, bool ok, bool is_write, const bson_error_t *why) {
  enum outcome o = ok ? OUTCOME_OK : is_write ? OUTCOME_UNKNOWN : OUTCOME_FAILED;
  report_count(&w->run->report, kind, o);
  if (ok && is_write) report_write_done(&w->run->report);
  if (!ok) {
    report_event(&w->run->report, "worker %d: %s: %u %s", w->id, kind, why->code, why->message);
    wait_ms(PAUSE_AFTER_ERROR_MS);
  }
  return o;
}

bool read_one(mongoc_collection_t *coll, int64_t key, const struct reading *how, bson_t **doc, bson_error_t *why) {
  bson_t *filter = json("{'_id':{'$numberLong':'%lld'},'k':{'$numberLong':'%lld'}}", (long long)key, (long long)key);
  bson_t *opts = json("{'limit':1,'maxTimeMS':%d}", MAX_TIME_MS), concern;
  mongoc_read_prefs_t *prefs = how->secondary ? mongoc_read_prefs_new(MONGOC_READ_SECONDARY_PREFERRED) : NULL;
  const bson_t *found;
  *doc = NULL;
  if (how->concern) {
    BSON_APPEND_DOCUMENT_BEGIN(opts, "readConcern", &concern);
    BSON_APPEND_UTF8(&concern, "level", how->concern);
    bson_append_document_end(opts, &concern);
  }
  bool ok = !how->session || mongoc_client_session_append(how->session, opts, why);
  mongoc_cursor_t *cursor = mongoc_collection_find_with_opts(coll, filter, opts, prefs);
  if (ok && mongoc_cursor_next(cursor, &found)) *doc = bson_copy(found);
  ok = ok && !mongoc_cursor_error(cursor, why);
  mongoc_cursor_destroy(cursor);
  mongoc_read_prefs_destroy(prefs);
  bson_destroy(filter);
  bson_destroy(opts);
  return ok;
}

enum outcome update_one(struct worker *w, mongoc_collection_t *coll, const char *kind, int64_t key, const char *extra,
                        bool upsert, int64_t *matched, const char *update, ...) {
  va_list ap;
  va_start(ap, update);
  bson_t *u = json_va(update, ap);
  va_end(ap);
  bson_t *filter =
      json("{'_id':{'$numberLong':'%lld'},'k':{'$numberLong':'%lld'}%s}", (long long)key, (long long)key, extra);
  bson_t *opts = json("{'upsert':%s}", upsert ? "true" : "false"), reply;
  bson_error_t why = {0};
  bool ok = mongoc_collection_update_one(coll, filter, u, opts, &reply, &why);
  int64_t n = doc_number(&reply, "matchedCount") + doc_number(&reply, "upsertedCount");
  if (ok && (n > 1 || (upsert && n != 1))) {
    char *text = bson_as_relaxed_extended_json(&reply, NULL);
    report_violation(&w->run->report, "%s of key %lld was answered with %s", kind, (long long)key, text);
    bson_free(text);
  }
  if (matched) *matched = n;
  bson_destroy(&reply);
  bson_destroy(opts);
  bson_destroy(filter);
  bson_destroy(u);
  return outcome_of(w, kind, ok, true, &why);
}
