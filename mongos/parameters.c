// The settings of a router.
#include "mongos/parameters.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/bson/doc.h"

struct parameter {
  const char *name;
  size_t offset; // of an int64_t in struct router
  int64_t min, max;
};

static const struct parameter parameters[] = {
    {"cursorTimeoutMillis", offsetof(struct router, cursor_timeout_ms), 1, INT64_MAX},
};
enum { N_PARAMETERS = sizeof parameters / sizeof *parameters };

static int64_t *value_of(struct router *rt, const struct parameter *p) {
  return (int64_t *)((char *)rt + p->offset);
}

static const struct parameter *find(const char *name) {
  for (size_t i = 0; i < N_PARAMETERS; i++) {
    if (strcmp(parameters[i].name, name) == 0) return &parameters[i];
  }
  return NULL;
}

static bool set(struct router *rt, const struct parameter *p, int64_t v, struct error *err) {
  if (v < p->min || v > p->max) {
    return error_set(err, ERR_BadValue,
                     "Invalid value for parameter %s: %" PRId64 " is not between %" PRId64 " and %" PRId64, p->name, v,
                     p->min, p->max);
  }
  *value_of(rt, p) = v;
  return true;
}

void parameters_init(struct router *rt) {
  rt->cursor_timeout_ms = CURSOR_TIMEOUT_MS;
}

bool parameters_from_options(struct router *rt, const struct options *o, struct error *err) {
  size_t n;
  const char *const *list = options_list(o, "setParameter", &n);
  for (size_t i = 0; i < n; i++) {
    const char *equals = strchr(list[i], '=');
    if (equals == NULL) return error_set(err, ERR_BadValue, "--setParameter takes NAME=VALUE, not '%s'", list[i]);
    const char *name = arena_strndup(rt->arena, list[i], (size_t)(equals - list[i]));
    const struct parameter *p = find(name);
    if (p == NULL) return error_set(err, ERR_BadValue, "a router has no parameter '%s'", name);
    char *end;
    errno = 0;
    int64_t v = strtoll(equals + 1, &end, 10);
    if (errno != 0 || end == equals + 1 || *end != 0) {
      return error_set(err, ERR_BadValue, "the parameter %s takes a number, not '%s'", name, equals + 1);
    }
    if (!set(rt, p, v, err)) return false;
  }
  return true;
}

static void append_fcv(bson_t *reply) {
  bson_t doc;
  bson_append_document_begin(reply, "featureCompatibilityVersion", -1, &doc);
  bson_append_utf8(&doc, "version", -1, "8.0", -1);
  bson_append_document_end(reply, &doc);
}

bool run_get_parameter(struct request *r, bson_t *reply, struct error *err) {
  struct router *rt = router_of(r);
  bson_t details;
  bool all = (BSON_ITER_HOLDS_UTF8(&r->first) && strcmp(bson_iter_utf8(&r->first, NULL), "*") == 0) ||
             (BSON_ITER_HOLDS_DOCUMENT(&r->first) && doc_doc(r->body, r->name, &details) &&
              doc_bool(&details, "allParameters", false));
  uint32_t before = bson_count_keys(reply);
  if (all || doc_has(r->body, "featureCompatibilityVersion")) append_fcv(reply);
  for (size_t i = 0; i < N_PARAMETERS; i++) {
    const struct parameter *p = &parameters[i];
    if (all || doc_has(r->body, p->name)) bson_append_int64(reply, p->name, -1, *value_of(rt, p));
  }
  if (bson_count_keys(reply) > before) return true;
  return error_set(err, ERR_InvalidOptions, "no option found to get");
}

bool run_set_parameter(struct request *r, bson_t *reply, struct error *err) {
  struct router *rt = router_of(r);
  for (size_t i = 0; i < N_PARAMETERS; i++) {
    const struct parameter *p = &parameters[i];
    bson_iter_t it;
    if (!doc_get(r->body, p->name, &it)) continue;
    if (!iter_is_number(&it)) {
      return error_set(err, ERR_BadValue, "the parameter %s takes a number", p->name);
    }
    int64_t was = *value_of(rt, p);
    if (!set(rt, p, iter_i64(&it), err)) return false;
    bson_append_int64(reply, "was", -1, was);
    return true;
  }
  return error_set(err, ERR_InvalidOptions, "no option found to set, use help:true to see options");
}
