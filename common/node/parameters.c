// getParameter and setParameter: named values that daemons declare, and those every node has.
#include "common/node/local.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/log.h"
#include "common/base/map.h"
#include "common/bson/doc.h"
#include "common/node/commands.h"
#include "common/node/internal.h"

struct parameter {
  int64_t *number; // one of the two
  bool *flag;
  int64_t min, max;
  bool settable;
};

struct parameters {
  struct map *by_name;
};

static struct parameter *add(struct node *n, const char *name, bool settable) {
  if (!n->parameters) {
    n->parameters = calloc(1, sizeof *n->parameters);
    n->parameters->by_name = map_new();
  }
  struct parameter *p = calloc(1, sizeof *p);
  p->settable = settable;
  free(map_puts(n->parameters->by_name, name, p));
  return p;
}

void parameter_add_int(struct node *n, const char *name, int64_t *value, int64_t min, int64_t max, bool settable) {
  struct parameter *p = add(n, name, settable);
  p->number = value;
  p->min = min;
  p->max = max;
}

void parameter_add_bool(struct node *n, const char *name, bool *value, bool settable) {
  add(n, name, settable)->flag = value;
}

void parameters_free(struct parameters *p) {
  if (!p) return;
  map_free(p->by_name, free);
  free(p);
}

static void append_value(bson_t *to, const char *name, const struct parameter *p) {
  if (p->flag) {
    BSON_APPEND_BOOL(to, name, *p->flag);
  } else {
    doc_append_num(to, name, *p->number);
  }
}

static bool set_value(const char *name, struct parameter *p, const bson_value_t *v, struct error *err) {
  if (!p->settable) {
    return error_set(err, ERR_IllegalOperation, "not allowed to change [%s] at runtime", name);
  }
  if (p->flag) {
    if (v->value_type != BSON_TYPE_BOOL && !value_is_number(v)) {
      return error_set(err, ERR_BadValue, "Invalid value for parameter %s: it is true or false", name);
    }
    *p->flag = value_truthy(v);
    return true;
  }
  int64_t number;
  if (!value_is_number(v) || !value_is_integral(v, &number)) {
    return error_set(err, ERR_BadValue, "Invalid value for parameter %s: it is a whole number", name);
  }
  if (number < p->min || number > p->max) {
    return error_set(err, ERR_BadValue, "Invalid value for parameter %s: %lld is not within %lld to %lld", name,
                     (long long)number, (long long)p->min, (long long)p->max);
  }
  *p->number = number;
  return true;
}

bool parameters_set_text(struct node *n, const char *assignment, struct error *err) {
  const char *equals = strchr(assignment, '=');
  if (!equals) return error_set(err, ERR_BadValue, "--setParameter %s: expected name=value", assignment);
  char *name = arena_strndup(n->own->arena, assignment, (size_t)(equals - assignment));
  struct parameter *p = n->parameters ? map_gets(n->parameters->by_name, name) : NULL;
  if (!p) return error_set(err, ERR_BadValue, "--setParameter %s: there is no such parameter", name);
  char *end;
  errno = 0;
  long long number = strtoll(equals + 1, &end, 10);
  bson_value_t v = value_int64(number);
  if (!strcmp(equals + 1, "true") || !strcmp(equals + 1, "false")) {
    v = value_bool(equals[1] == 't');
  } else if (end == equals + 1 || *end || errno) {
    return error_set(err, ERR_BadValue, "--setParameter %s: '%s' is not a number, true or false", name, equals + 1);
  }
  bool settable = p->settable;
  p->settable = true; // at start everything may be given
  bool ok = set_value(name, p, &v, err);
  p->settable = settable;
  return ok;
}

static void append_feature_version(bson_t *to) {
  bson_t version;
  BSON_APPEND_DOCUMENT_BEGIN(to, "featureCompatibilityVersion", &version);
  BSON_APPEND_UTF8(&version, "version", "8.0");
  bson_append_document_end(to, &version);
}

static bool append_one(void *ctx, const void *key, size_t len, void *value) {
  char name[128];
  if (len >= sizeof name) return true;
  memcpy(name, key, len);
  name[len] = '\0';
  append_value(ctx, name, value);
  return true;
}

static bool is_envelope(const char *field) {
  static const char *const fields[] = {"lsid",        "comment",      "apiVersion", "apiStrict", "apiDeprecationErrors",
                                       "readConcern", "writeConcern", "maxTimeMS",  NULL};
  if (field[0] == '$') return true;
  for (size_t i = 0; fields[i]; i++) {
    if (!strcmp(field, fields[i])) return true;
  }
  return false;
}

bool get_parameter_run(struct request *r, bson_t *reply, struct error *err) {
  struct node *n = request_node(r);
  bson_iter_t it = r->first;
  bool all = BSON_ITER_HOLDS_UTF8(&it) && !strcmp(bson_iter_utf8(&it, NULL), "*");
  if (BSON_ITER_HOLDS_DOCUMENT(&it)) all = doc_bool(iter_child(r->op->arena, &it), "allParameters", false);
  if (all) {
    append_feature_version(reply);
    if (n->parameters) map_each(n->parameters->by_name, append_one, reply);
    return true;
  }
  size_t found = 0;
  while (bson_iter_next(&it)) {
    const char *name = bson_iter_key(&it);
    if (is_envelope(name)) continue;
    struct parameter *p = n->parameters ? map_gets(n->parameters->by_name, name) : NULL;
    if (p) {
      append_value(reply, name, p);
    } else if (!strcmp(name, "featureCompatibilityVersion")) {
      append_feature_version(reply);
    } else {
      continue;
    }
    found++;
  }
  return found || error_set(err, ERR_InvalidOptions, "no option found to get");
}

bool set_parameter_run(struct request *r, bson_t *reply, struct error *err) {
  struct node *n = request_node(r);
  bson_iter_t it = r->first;
  size_t found = 0;
  while (bson_iter_next(&it)) {
    const char *name = bson_iter_key(&it);
    if (is_envelope(name)) continue;
    struct parameter *p = n->parameters ? map_gets(n->parameters->by_name, name) : NULL;
    if (!p) {
      return error_set(err, ERR_InvalidOptions,
                       "attempted to set unrecognized parameter [%s], use help:true to see options", name);
    }
    if (!found++) append_value(reply, "was", p);
    bson_value_t v = *bson_iter_value(&it);
    if (!set_value(name, p, &v, err)) return false;
    log_info("CONTROL", "Parameter set", "name:s", name);
  }
  return found || error_set(err, ERR_InvalidOptions, "no option found to set, use help:true to see options ");
}
