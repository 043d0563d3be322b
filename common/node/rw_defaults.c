// Cluster-wide defaults of read and write concern: setDefaultRWConcern and getDefaultRWConcern.
//
// They are a document of config.settings: on a config server for its cluster (routers read it and add what it says to
// what they send), on a plain replica set for its own clients. A shard of a cluster has none.
#include "common/node/rw_defaults.h"

#include <string.h>

#include "common/base/clock.h"
#include "common/bson/doc.h"
#include "common/node/internal.h"
#include "common/node/local.h"

#define SETTINGS_NS "config.settings"
#define DEFAULTS_ID "ReadWriteConcernDefaults"

static bool is_shard(struct node *n, struct arena *a) {
  const bson_t *doc;
  bson_value_t id = value_str("shardIdentity");
  return local_find_id(n, a, "admin.system.version", &id, &doc);
}

static bool refuse_on_shard(struct request *r, struct error *err) {
  return !is_shard(request_node(r), r->op->arena) || error_set(err, 51301, "'%s' is not supported on shards", r->name);
}

// --- setting ---

static bool check_read_default(const bson_t *concern, struct error *err) {
  bson_iter_t it;
  if (!bson_iter_init(&it, concern)) return true;
  while (bson_iter_next(&it)) {
    if (strcmp(bson_iter_key(&it), "level") != 0)
      return error_set(err, ERR_BadValue, "The default read concern must have only the field 'level', not '%s'",
                       bson_iter_key(&it));
    const char *level = BSON_ITER_HOLDS_UTF8(&it) ? bson_iter_utf8(&it, NULL) : "";
    if (strcmp(level, "local") != 0 && strcmp(level, "available") != 0 && strcmp(level, "majority") != 0)
      return error_set(err, ERR_BadValue, "level: '%s' is not suitable for the default read concern", level);
  }
  return true;
}

static bool check_write_default(const bson_t *concern, const bson_t *before, struct error *err) {
  bson_iter_t w;
  if (!request_check_write_concern(concern, err)) return false;
  if (bson_empty(concern))
    return !doc_has(before, "defaultWriteConcern") ||
           error_set(err, ERR_IllegalOperation, "The global default write concern cannot be unset once it is set.");
  if (!doc_get(concern, "w", &w)) return true;
  return !iter_is_number(&w) || iter_i64(&w) > 0 ||
         error_set(err, ERR_BadValue, "Unacknowledged write concern is not suitable for the default write concern");
}

// Takes over what is given, keeps what is not, leaves out what is given as {}.
static void append_part(bson_t *to, const char *name, const bson_t *given, const bson_t *before) {
  bson_t old;
  if (given && !bson_empty(given))
    BSON_APPEND_DOCUMENT(to, name, given);
  else if (!given && doc_doc(before, name, &old))
    BSON_APPEND_DOCUMENT(to, name, &old);
}

// {w: 1} becomes {w: 1, wtimeout: 0}.
static const bson_t *complete(struct arena *a, const bson_t *concern) {
  bson_t *all = arena_bson(a);
  bson_concat(all, concern);
  if (bson_empty(concern)) return all;
  if (!doc_has(concern, "w")) BSON_APPEND_INT32(all, "w", 1);
  if (!doc_has(concern, "wtimeout")) BSON_APPEND_INT32(all, "wtimeout", 0);
  return all;
}

static const bson_t *stored(struct node *n, struct arena *a) {
  const bson_t *doc;
  bson_value_t id = value_str(DEFAULTS_ID);
  return local_find_id(n, a, SETTINGS_NS, &id, &doc) ? doc : arena_bson(a);
}

bool set_rw_defaults_run(struct request *r, bson_t *reply, struct error *err) {
  struct node *n = request_node(r);
  struct arena *a = r->op->arena;
  const bson_t *read, *write, *before = stored(n, a);
  if (!refuse_on_shard(r, err) || !optional_doc(a, r->body, "defaultReadConcern", false, &read, err) ||
      !optional_doc(a, r->body, "defaultWriteConcern", false, &write, err))
    return false;
  if (!read && !write)
    return error_set(err, ERR_BadValue,
                     "At least one of the \"defaultReadConcern\" or \"defaultWriteConcern\" fields must be present");
  if ((read && !check_read_default(read, err)) || (write && !check_write_default(write, before, err))) return false;
  bson_t *doc = arena_bson(a);
  BSON_APPEND_UTF8(doc, "_id", DEFAULTS_ID);
  append_part(doc, "defaultReadConcern", read, before);
  append_part(doc, "defaultWriteConcern", write ? complete(a, write) : NULL, before);
  doc_append_ts(doc, "updateOpTime", n->clock.time);
  BSON_APPEND_DATE_TIME(doc, "updateWallClockTime", clock_wall_ms());
  if (!local_put_now(r->op, n, SETTINGS_NS, doc, err)) return false;
  rw_defaults_load(n);
  rw_defaults_append(doc, reply);
  return true;
}

// --- telling ---

void rw_defaults_append(const bson_t *doc, bson_t *reply) {
  bson_t part;
  bson_iter_t it;
  bool read = doc_doc(doc, "defaultReadConcern", &part);
  if (read)
    BSON_APPEND_DOCUMENT(reply, "defaultReadConcern", &part);
  else {
    BSON_APPEND_DOCUMENT_BEGIN(reply, "defaultReadConcern", &part);
    BSON_APPEND_UTF8(&part, "level", "local");
    bson_append_document_end(reply, &part);
  }
  bool write = doc_doc(doc, "defaultWriteConcern", &part);
  if (write)
    BSON_APPEND_DOCUMENT(reply, "defaultWriteConcern", &part);
  else {
    BSON_APPEND_DOCUMENT_BEGIN(reply, "defaultWriteConcern", &part);
    BSON_APPEND_UTF8(&part, "w", "majority");
    BSON_APPEND_INT32(&part, "wtimeout", 0);
    bson_append_document_end(reply, &part);
  }
  if (doc_get(doc, "updateOpTime", &it)) doc_append_iter(reply, NULL, &it);
  if (doc_get(doc, "updateWallClockTime", &it)) doc_append_iter(reply, NULL, &it);
  BSON_APPEND_UTF8(reply, "defaultWriteConcernSource", write ? "global" : "implicit");
  BSON_APPEND_UTF8(reply, "defaultReadConcernSource", read ? "global" : "implicit");
  BSON_APPEND_DATE_TIME(reply, "localUpdateWallClockTime", clock_wall_ms());
}

bool get_rw_defaults_run(struct request *r, bson_t *reply, struct error *err) {
  if (!refuse_on_shard(r, err)) return false;
  rw_defaults_append(stored(request_node(r), r->op->arena), reply);
  return true;
}

// --- using, on a plain replica set ---

void rw_defaults_load(struct node *n) {
  struct arena *a __attribute__((cleanup(arena_cleanup))) = arena_new();
  if (strcmp(n->program, "shardd") != 0 || !n->repl) return; // a config server's are for its cluster
  const bson_t *doc = stored(n, a);
  struct rw_defaults *d = &n->own->defaults;
  bson_t part;
  bson_destroy(d->write);
  *d = (struct rw_defaults){0};
  if (is_shard(n, a)) return; // its router has added them
  if (doc_doc(doc, "defaultWriteConcern", &part)) {
    d->write = bson_copy(&part);
    BSON_APPEND_UTF8(d->write, "provenance", "customDefault");
  }
  const char *level = doc_doc(doc, "defaultReadConcern", &part) ? doc_str(&part, "level", "") : "";
  d->has_read = *level != 0;
  d->read = !strcmp(level, "majority") ? LEVEL_MAJORITY : !strcmp(level, "available") ? LEVEL_AVAILABLE : LEVEL_LOCAL;
}

void rw_defaults_apply(const struct node *n, struct request *r) {
  const struct rw_defaults *d = &n->own->defaults;
  if (d->write && !r->has_write_concern && r->command->flags & CMD_WRITE && !(r->command->flags & CMD_INTERNAL)) {
    r->has_write_concern = true;
    const bson_t *own = doc_copy(r->op->arena, d->write);
    (void)bson_init_static(&r->write_concern, bson_get_data(own), own->len);
  }
  if (d->has_read && !r->has_read_level && r->command->flags & CMD_READ) r->read_level = d->read;
}
