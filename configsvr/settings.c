// config.settings: its validator and its meaning.
#include "configsvr/settings.h"

#include <stdio.h>

#include <string.h>

#include "common/bson/doc.h"

// --- the validator: one line a field ---

enum kind { NUMBER_MB, BOOLEAN, TEXT, BOOLEAN_OR_OBJECT, OBJECT, WINDOW, ANY };

static const struct {
  const char *id, *field;
  enum kind kind;
} fields[] = {
    {"chunksize", "value", NUMBER_MB},
    {"balancer", "mode", TEXT},
    {"balancer", "stopped", BOOLEAN},
    {"balancer", "activeWindow", WINDOW},
    {"balancer", "_secondaryThrottle", BOOLEAN_OR_OBJECT},
    {"balancer", "_waitForDelete", BOOLEAN},
    {"balancer", "attemptToBalanceJumboChunks", BOOLEAN},
    {"autosplit", "enabled", BOOLEAN},
    {"automerge", "enabled", BOOLEAN},
    {"ReadWriteConcernDefaults", "defaultReadConcern", OBJECT},
    {"ReadWriteConcernDefaults", "defaultWriteConcern", OBJECT},
    {"ReadWriteConcernDefaults", "updateOpTime", ANY},
    {"ReadWriteConcernDefaults", "updateWallClockTime", ANY},
};

static bool invalid(const char *id, const char *field, const char *why, struct error *err) {
  return error_set(err, ERR_DocumentValidationFailure, "Document failed validation: config.settings '%s': %s %s", id,
                   field, why);
}

// "hh:mm", 00:00 to 23:59. -1: it is not.
static int parse_time(const char *s) {
  int hour, minute, end = 0;
  if (!s || sscanf(s, "%2d:%2d%n", &hour, &minute, &end) != 2 || (size_t)end != strlen(s)) return -1;
  return hour < 0 || hour > 23 || minute < 0 || minute > 59 ? -1 : hour * 60 + minute;
}

static bool parse_window(const bson_t *window, int *start, int *stop) {
  *start = parse_time(doc_str(window, "start", NULL));
  *stop = parse_time(doc_str(window, "stop", NULL));
  return *start >= 0 && *stop >= 0 && *start != *stop;
}

static bool fits(const bson_iter_t *it, enum kind kind, const char **why) {
  bool object = BSON_ITER_HOLDS_DOCUMENT(it);
  switch (kind) {
  case NUMBER_MB: {
    *why = "must be a number of MB from 1 to 1024";
    return iter_is_number(it) && iter_i64(it) >= 1 && iter_i64(it) <= MAX_CHUNK_MB;
  }
  case BOOLEAN: *why = "must be true or false"; return BSON_ITER_HOLDS_BOOL(it);
  case TEXT: *why = "must be a string"; return BSON_ITER_HOLDS_UTF8(it);
  case BOOLEAN_OR_OBJECT: *why = "must be true, false or a write concern"; return object || BSON_ITER_HOLDS_BOOL(it);
  case OBJECT: *why = "must be an object"; return object;
  case WINDOW: {
    bson_t window;
    int start, stop;
    *why = "needs start and stop as \"hh:mm\", which differ";
    if (!object) return false;
    iter_doc(&window, it);
    return parse_window(&window, &start, &stop);
  }
  default: return true;
  }
}

static bool validate_field(const char *id, const bson_iter_t *it, bool *known_id, struct error *err) {
  const char *name = bson_iter_key(it);
  *known_id = false;
  for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
    if (strcmp(fields[i].id, id) != 0) continue;
    *known_id = true;
    if (strcmp(fields[i].field, name) != 0) continue;
    const char *why = "";
    return fits(it, fields[i].kind, &why) || invalid(id, name, why, err);
  }
  return invalid(id, name, *known_id ? "is not a known field" : "belongs to no known setting", err);
}

bool settings_validate(const bson_t *doc, struct error *err) {
  const char *id = doc_str(doc, "_id", NULL);
  if (!id) return invalid("?", "_id", "must be a string", err);
  bool known = false;
  bson_iter_t it;
  bson_iter_init(&it, doc);
  while (bson_iter_next(&it)) {
    if (strcmp(bson_iter_key(&it), "_id") == 0) continue;
    if (!validate_field(id, &it, &known, err)) return false;
  }
  return true;
}

// --- the meaning ---

static bool read_balancer(const bson_t *doc, struct balancer_settings *out, struct error *err) {
  bson_iter_t it;
  out->enabled = strcmp(doc_str(doc, "mode", "full"), "full") == 0 && !doc_bool(doc, "stopped", false);
  out->attempt_jumbo = doc_bool(doc, "attemptToBalanceJumboChunks", false);
  out->wait_for_delete = doc_bool(doc, "_waitForDelete", false);
  out->secondary_throttle = doc_bool(doc, "_secondaryThrottle", false);
  if (!doc_get(doc, "activeWindow", &it)) return true;
  bson_t window;
  iter_doc(&window, &it);
  out->has_window = true;
  return parse_window(&window, &out->start_minute, &out->stop_minute) ||
         error_set(err, ERR_BadValue, "The balancer's activeWindow needs start and stop as \"hh:mm\", which differ");
}

bool settings_read(const bson_t *const *docs, size_t n, struct balancer_settings *out, struct error *err) {
  *out = (struct balancer_settings){
      .enabled = true, .auto_merge = true, .chunk_bytes = (int64_t)DEFAULT_CHUNK_MB * 1024 * 1024};
  for (size_t i = 0; i < n; i++) {
    const char *id = doc_str(docs[i], "_id", "");
    if (strcmp(id, "chunksize") == 0) {
      double mb = doc_double(docs[i], "value", 0);
      if (!(mb >= 1 && mb <= MAX_CHUNK_MB))
        return error_set(err, ERR_BadValue, "The chunk size %g MB is not within 1 and 1024", mb);
      out->chunk_bytes = (int64_t)(mb * 1024 * 1024);
    } else if (strcmp(id, "automerge") == 0) {
      out->auto_merge = doc_bool(docs[i], "enabled", true);
    } else if (strcmp(id, "balancer") == 0 && !read_balancer(docs[i], out, err)) {
      return false;
    }
  }
  return true;
}

bool settings_in_window(const struct balancer_settings *s, int minute) {
  if (!s->has_window) return true;
  if (s->start_minute < s->stop_minute) return minute >= s->start_minute && minute <= s->stop_minute;
  return minute >= s->start_minute || minute <= s->stop_minute;
}
