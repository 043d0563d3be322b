// Whether a replica set may become a shard.
#include "configsvr/shard_check.h"

#include <string.h>

#include "common/bson/doc.h"

enum { HOSTS_MAX = 50 };

// "set/h1:p1,h2:p2" or "h1:p1". false: it is neither.
static bool split(struct arena *a, const char *text, const char **set, const char ***hosts, size_t *n) {
  const char *slash = strchr(text, '/');
  *set = slash ? arena_strndup(a, text, (size_t)(slash - text)) : NULL;
  if (slash && slash == text) return false;
  *hosts = arena_alloc(a, HOSTS_MAX * sizeof **hosts);
  *n = 0;
  for (const char *at = slash ? slash + 1 : text;;) {
    size_t len = strcspn(at, ",");
    const char *host = arena_strndup(a, at, len), *colon = strrchr(host, ':');
    if (*n == HOSTS_MAX || !colon || colon == host || colon[1] == '\0' ||
        strspn(colon + 1, "0123456789") != strlen(colon + 1)) {
      return false;
    }
    (*hosts)[(*n)++] = host;
    if (at[len] == '\0') return true;
    at += len + 1;
  }
}

bool shard_candidate_parse(struct arena *a, const char *text, struct shard_candidate *out, struct error *err) {
  out->text = text ? text : "";
  if (split(a, out->text, &out->given_set, &out->hosts, &out->n_hosts)) return true;
  return error_set(err, ERR_BadValue, "Invalid connection string '%s': expected <set>/<host:port>,<host:port>...",
                   out->text);
}

static bool has_host(const bson_t *hello, const char *list, const char *host) {
  bson_iter_t it, at;
  if (!bson_iter_init_find(&it, hello, list) || !bson_iter_recurse(&it, &at)) return false;
  while (bson_iter_next(&at)) {
    if (BSON_ITER_HOLDS_UTF8(&at) && strcmp(bson_iter_utf8(&at, NULL), host) == 0) return true;
  }
  return false;
}

static const char *all_hosts(struct arena *a, const char *set, const bson_t *hello) {
  const char *text = arena_printf(a, "%s/", set);
  const char *comma = "";
  static const char *const lists[] = {"hosts", "passives"};
  for (size_t i = 0; i < 2; i++) {
    bson_iter_t it, at;
    if (!bson_iter_init_find(&it, hello, lists[i]) || !bson_iter_recurse(&it, &at)) continue;
    while (bson_iter_next(&at)) {
      text = arena_printf(a, "%s%s%s", text, comma, bson_iter_utf8(&at, NULL));
      comma = ",";
    }
  }
  return text;
}

static bool check_set_name(struct arena *a, const struct shard_candidate *c, const char *name, const bson_t *hello,
                           struct error *err) {
  if (!c->given_set && name) {
    return error_set(err, ERR_OperationFailed,
                     "host is part of set %s; use replica set url format <setname>/<server1>,<server2>, ...", name);
  }
  if (!name) {
    return error_set(err, ERR_OperationFailed,
                     "host did not return a set name; is the replica set still initializing? %s", doc_text(a, hello));
  }
  if (strcmp(name, c->given_set) != 0) {
    return error_set(err, ERR_OperationFailed,
                     "the provided connection string (%s) does not match the actual set name %s", c->text, name);
  }
  return true;
}

bool shard_candidate_check(struct arena *a, struct shard_candidate *c, const bson_t *hello, struct error *err) {
  if (strcmp(doc_str(hello, "msg", ""), "isdbgrid") == 0) {
    return error_set(err, ERR_IllegalOperation, "cannot add a mongos as a shard");
  }
  const char *name = doc_str(hello, "setName", NULL);
  if (!doc_bool(hello, "isWritablePrimary", false)) {
    if (!name && !doc_bool(hello, "isreplicaset", false)) return check_set_name(a, c, name, hello, err);
    return error_set(err, ERR_NotWritablePrimary,
                     "%s does not have a master. If this is a replica set, ensure that it has a healthy primary and "
                     "that the set has been "
                     "properly initiated.",
                     c->text);
  }
  if (!check_set_name(a, c, name, hello, err)) return false;
  if (doc_has(hello, "configsvr")) {
    return error_set(err, ERR_OperationFailed, "Cannot add %s as a shard since it is a config server", c->text);
  }
  for (size_t i = 0; i < c->n_hosts; i++) {
    const char *h = c->hosts[i];
    if (has_host(hello, "hosts", h) || has_host(hello, "passives", h) || has_host(hello, "arbiters", h)) continue;
    return error_set(err, ERR_OperationFailed, "in seed list %s, host %s does not belong to replica set %s; found %s",
                     c->text, h, name, doc_text(a, hello));
  }
  c->set_name = arena_strdup(a, name);
  c->host_string = all_hosts(a, name, hello);
  return true;
}

bool shard_candidate_overlaps(struct arena *a, const struct shard_candidate *c, const char *host_string) {
  const char *set, **hosts;
  size_t n;
  if (!split(a, host_string, &set, &hosts, &n)) return false;
  if (c->given_set && set && strcmp(set, c->given_set) == 0) return true;
  for (size_t i = 0; i < n; i++) {
    for (size_t j = 0; j < c->n_hosts; j++) {
      if (strcmp(hosts[i], c->hosts[j]) == 0) return true;
    }
  }
  return false;
}

bool shard_candidate_is_set(struct arena *a, const struct shard_candidate *c, const char *host_string) {
  const char *set, **hosts;
  size_t n;
  if (!split(a, host_string, &set, &hosts, &n) || !c->given_set || !set || strcmp(set, c->given_set) != 0) return false;
  for (size_t j = 0; j < c->n_hosts; j++) { // every host given is one of the registered set's
    size_t i = 0;
    while (i < n && strcmp(hosts[i], c->hosts[j]) != 0) i++;
    if (i == n) return false;
  }
  return true;
}
