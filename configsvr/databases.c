// config.databases: creating (on the least loaded shard), moving and dropping a database's entry.
#include <string.h>
#include <strings.h>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/bson/doc.h"
#include "configsvr/catalog_read.h"
#include "configsvr/commands.h"
#include "configsvr/commit.h"
#include "configsvr/shard_sets.h"

enum { FLUSH_TIMEOUT_MS = 10000 };

static const char *const database_namespaces[] = {"config.databases", "config.shards"};

// --- where a new database goes ---

// The shard with the strictly smallest listDatabases.totalSize, in the order they were added (a tie keeps the earlier
// one).
static bool least_loaded(struct operation *op, struct config_server *cs, const char **out, struct error *err) {
  struct shard_type *shards;
  size_t n;
  int64_t least = INT64_MAX;
  *out = NULL;
  if (!catalog_read_shards(cs, op->arena, &shards, &n, err)) return false;
  for (size_t i = 0; i < n; i++) {
    if (shards[i].draining) continue;
    bson_t *list = arena_bson(op->arena);
    bson_append_int32(list, "listDatabases", -1, 1);
    const bson_t *reply;
    if (!shard_call(op, cs, shards[i].name, "admin", list, true, &reply, err))
      return error_prefix(err, "shard %s", shards[i].name);
    int64_t size = doc_i64(reply, "totalSize", 0);
    if (size < least) least = size, *out = shards[i].name;
  }
  return *out || error_set(err, ERR_ShardNotFound, "No non-draining shard found");
}

// --- create ---

struct create {
  const char *db;
  const char *asked;  // primaryShardId, NULL = any
  const char *chosen; // the primary of a new database
  bool created;
  struct database_type result;
};

static bool check_name(const char *db, struct error *err) {
  if (strcmp(db, "admin") == 0 || strcmp(db, "config") == 0 || strcmp(db, "local") == 0) {
    return error_set(err, ERR_InvalidOptions, "Cannot manually create database '%s'", db);
  }
  if (*db == '\0' || strlen(db) > 63 || strpbrk(db, "/\\. \"$")) {
    return error_set(err, ERR_InvalidNamespace, "Invalid db name specified: %s", db);
  }
  return true;
}

// *found: it is there, and its primary is as asked.
static bool find_existing(struct config_server *cs, struct arena *a, struct create *x, bool *found, struct error *err) {
  if (!catalog_read_database(cs, a, x->db, &x->result, found, err)) return false;
  if (*found && x->asked && strcmp(x->result.primary, x->asked) != 0) {
    return error_set(err, ERR_NamespaceExists, "database already created on a primary which is different from %s",
                     x->asked);
  }
  return true;
}

// Names that differ in case only would be one directory on some systems.
static bool check_case(struct commit *c, const struct create *x, struct error *err) {
  const bson_t **docs;
  bson_t none = BSON_INITIALIZER;
  size_t n = local_find(&c->cs->node, c->arena, "config.databases", &none, NULL, 0, &docs);
  for (size_t i = 0; i < n; i++) {
    const char *other = doc_str(docs[i], "_id", "");
    if (strcasecmp(other, x->db) == 0 && strcmp(other, x->db) != 0) {
      return error_set(err, ERR_DatabaseDifferCase,
                       "can't have 2 databases that just differ on case  have: %s want to add: %s", other, x->db);
    }
  }
  return true;
}

static bool commit_create(struct commit *c, void *args, struct error *err) {
  struct create *x = args;
  struct shard_type shard;
  bool found;
  x->created = false;
  if (!find_existing(c->cs, c->arena, x, &found, err)) return false;
  if (found) return true;
  if (!check_case(c, x, err) || !catalog_need_shard(c->cs, c->arena, x->chosen, &shard, err)) return false;
  if (shard.draining) return error_set(err, ERR_ShardNotFound, "Shard %s is draining", x->chosen);
  x->result =
      (struct database_type){.name = x->db, .primary = x->chosen, .version = {.timestamp = c->now, .last_mod = 1}};
  uuid_new(x->result.version.uuid);
  x->created = true;
  bson_t none = BSON_INITIALIZER;
  return commit_log(c, "createDatabase.start", x->db, &none, err) &&
         commit_put(c, "config.databases", database_type_doc(c->arena, &x->result), err) &&
         commit_placement(c, x->db, NULL, &x->chosen, 1, err) && commit_log(c, "createDatabase", x->db, &none, err);
}

// The primary learns at once what it is; if it does not, its first request tells it.
static void flush_cache(struct operation *op, struct config_server *cs, const struct create *x) {
  bson_t *flush = arena_bson(op->arena);
  bson_append_utf8(flush, "_flushDatabaseCacheUpdates", -1, x->db, -1);
  bson_append_bool(flush, "syncFromConfig", -1, true);
  const bson_t *reply;
  struct error err = {0};
  if (!shard_call_for(op, cs, x->result.primary, "admin", flush, FLUSH_TIMEOUT_MS, &reply, &err)) {
    log_warn("SHARDING", "The new database's primary shard did not refresh", "db:s shard:s error:e", x->db,
             x->result.primary, &err);
  }
}

static bool create(struct request *r, struct create *x, struct error *err) {
  struct config_server *cs = config_of(r);
  struct shard_type shard;
  bool found;
  if (!check_name(x->db, err) || !find_existing(cs, r->op->arena, x, &found, err)) return false;
  if (found) return repl_barrier(r->op, cs->node.repl, err);
  x->chosen = x->asked;
  if (x->asked && !catalog_need_shard(cs, r->op->arena, x->asked, &shard, err)) return false;
  if (!x->asked && !least_loaded(r->op, cs, &x->chosen, err)) return false;
  if (!commit_run(r->op, cs, database_namespaces, 2, commit_create, x, err)) return false;
  if (x->created) {
    log_info("SHARDING", "Created database", "db:s primary:s", x->db, x->result.primary);
    flush_cache(r->op, cs, x);
  }
  return true;
}

bool config_create_database(struct request *r, bson_t *reply, struct error *err) {
  if (!r->coll) return error_set(err, ERR_BadValue, "%s needs a database name", r->name);
  struct create x = {.db = r->coll, .asked = doc_str(r->body, "primaryShardId", NULL)};
  if (!create(r, &x, err)) return error_prefix(err, "Database %s could not be created", x.db);
  database_version_append(reply, "databaseVersion", &x.result.version);
  return true;
}

// --- move, drop ---

struct transition {
  const char *db, *to;
  struct database_version expected;
};

static bool commit_move(struct commit *c, void *args, struct error *err) {
  struct transition *x = args;
  struct database_type d;
  struct shard_type to;
  bool found;
  if (!catalog_read_database(c->cs, c->arena, x->db, &d, &found, err)) return false;
  if (!found) return error_set(err, ERR_NamespaceNotFound, "database %s not found", x->db);
  struct database_version next = x->expected;
  next.last_mod++;
  if (database_version_equal(&d.version, &next) && strcmp(d.primary, x->to) == 0) return true; // repeated
  if (!database_version_equal(&d.version, &x->expected))
    return error_stale_db_version(err, c->arena, x->db, &x->expected, &d.version);
  if (!catalog_need_shard(c->cs, c->arena, x->to, &to, err)) return false;
  if (to.draining) return error_set(err, ERR_ShardNotFound, "Requested primary shard %s is draining", x->to);
  d.version = next;
  d.primary = x->to;
  return commit_put(c, "config.databases", database_type_doc(c->arena, &d), err) &&
         commit_placement(c, x->db, NULL, &x->to, 1, err);
}

static bool parse_version(struct request *r, const char *field, struct database_version *out, struct error *err) {
  bson_t v;
  return request_required_doc(r, field, &v, err) && database_version_parse(&v, out, err);
}

bool config_commit_move_primary(struct request *r, bson_t *reply, struct error *err) {
  struct transition x = {.db = r->coll};
  if (!r->coll) return error_set(err, ERR_BadValue, "%s needs a database name", r->name);
  if (!request_required_str(r, "to", &x.to, err) || !parse_version(r, "expectedDatabaseVersion", &x.expected, err))
    return false;
  return commit_run(r->op, config_of(r), database_namespaces, 2, commit_move, &x, err);
}

static bool commit_drop(struct commit *c, void *args, struct error *err) {
  struct transition *x = args;
  struct database_type d;
  bool found;
  if (!catalog_read_database(c->cs, c->arena, x->db, &d, &found, err)) return false;
  // Gone, or another incarnation: this one is dropped already.
  if (!found || memcmp(d.version.uuid, x->expected.uuid, 16) != 0) return true;
  return commit_delete_str(c, "config.databases", x->db, err) && commit_placement(c, x->db, NULL, NULL, 0, err);
}

bool config_commit_drop_database(struct request *r, bson_t *reply, struct error *err) {
  struct transition x = {.db = r->coll};
  if (!r->coll) return error_set(err, ERR_BadValue, "%s needs a database name", r->name);
  if (!parse_version(r, "version", &x.expected, err)) return false;
  return commit_run(r->op, config_of(r), database_namespaces, 2, commit_drop, &x, err);
}
