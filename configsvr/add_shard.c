// _configsvrAddShard: looks at the set that is to become a shard, gives it its identity, and registers it.
//
//   1. find its primary by hello; check that it is a replica set of its own, whole, and no router or config server
//   2. its databases must not be known already: they become the cluster's
//   3. _addShard makes it a shard of this cluster (it refuses when it belongs to another)
//   4. one entry: the shard with a fresh topologyTime, and its databases
// A failure after 3 leaves a set that knows its cluster but is not in it; adding it again goes on.
#include <string.h>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/bson/doc.h"
#include "configsvr/balancer.h"
#include "configsvr/catalog_read.h"
#include "configsvr/commands.h"
#include "configsvr/commit.h"
#include "configsvr/setup.h"
#include "configsvr/shard_check.h"

enum { CALL_TIMEOUT_MS = 10000 };

struct add {
  struct shard_candidate set; // what is to be added
  const char *name;           // asked for, NULL = the set's
  const char *id;             // result
  const char **databases;
  size_t n_databases;
  const char *existing; // id of the same shard, when it is registered already
};

static bool call(struct operation *op, struct config_server *cs, const char *host, const bson_t *body,
                 const bson_t **reply, struct error *err) {
  struct remote_command cmd = {.db = "admin", .body = body, .timeout_ms = CALL_TIMEOUT_MS};
  return remote_call(op, cs->node.remotes, host, &cmd, reply, err);
}

static bool say_hello(struct operation *op, struct config_server *cs, const char *host, const bson_t **reply,
                      struct error *err) {
  bson_t *hello = arena_bson(op->arena);
  bson_append_int32(hello, "hello", -1, 1);
  return call(op, cs, host, hello, reply, err);
}

// The primary's hello: from one of the hosts given, or from the primary that one of them names.
static bool find_primary(struct operation *op, struct config_server *cs, struct add *x, const bson_t **hello,
                         struct error *err) {
  const bson_t *any = NULL;
  const char *any_host = NULL;
  struct error last = {0};
  for (size_t i = 0; i < x->set.n_hosts; i++) {
    if (!say_hello(op, cs, x->set.hosts[i], hello, &last)) continue;
    any = *hello;
    any_host = x->set.hosts[i];
    if (doc_bool(*hello, "isWritablePrimary", false)) break;
    const char *primary = doc_str(*hello, "primary", NULL);
    if (primary && say_hello(op, cs, primary, hello, &last) && doc_bool(*hello, "isWritablePrimary", false)) {
      any = *hello;
      any_host = primary;
      break;
    }
  }
  if (!any) {
    return error_set(err, ERR_OperationFailed, "Could not reach %s: %s", x->set.text, last.message);
  }
  *hello = any;
  x->set.primary = any_host;
  return true;
}

static bool find_databases(struct operation *op, struct config_server *cs, struct add *x, struct error *err) {
  bson_t *list = arena_bson(op->arena), array;
  const bson_t *reply;
  bson_append_int32(list, "listDatabases", -1, 1);
  bson_append_bool(list, "nameOnly", -1, true);
  if (!call(op, cs, x->set.primary, list, &reply, err))
    return error_prefix(err, "could not list the databases of %s", x->set.text);
  if (!doc_doc(reply, "databases", &array)) return true;
  x->databases = arena_alloc(op->arena, bson_count_keys(&array) * sizeof *x->databases);
  bson_iter_t it;
  bson_iter_init(&it, &array);
  while (bson_iter_next(&it)) {
    bson_t entry;
    iter_doc(&entry, &it);
    const char *name = doc_str(&entry, "name", "");
    if (strcmp(name, "admin") == 0 || strcmp(name, "local") == 0 || strcmp(name, "config") == 0) continue;
    x->databases[x->n_databases++] = arena_strdup(op->arena, name);
  }
  return true;
}

static bool give_identity(struct operation *op, struct config_server *cs, const struct add *x, struct error *err) {
  bson_oid_t cluster;
  if (!setup_cluster_id(cs, &cluster)) return error_set(err, ERR_NotYetInitialized, "The cluster has no id yet");
  bson_t *body = arena_bson(op->arena), identity;
  bson_append_int32(body, "_addShard", -1, 1);
  bson_append_document_begin(body, "shardIdentity", -1, &identity);
  bson_append_utf8(&identity, "shardName", -1, x->id, -1);
  bson_append_oid(&identity, "clusterId", -1, &cluster);
  bson_append_utf8(&identity, "configsvrConnectionString", -1, config_connection_string(op->arena, cs), -1);
  bson_append_document_end(body, &identity);
  append_majority(body);
  const bson_t *reply;
  return call(op, cs, x->set.primary, body, &reply, err) || error_prefix(err, "could not make %s a shard", x->set.text);
}

// The same shard under the same name: x->existing. Its hosts or set under another name: an error.
static bool look_for_existing(struct config_server *cs, struct arena *a, struct add *x, struct error *err) {
  struct shard_type *shards;
  size_t n;
  x->existing = NULL;
  if (!catalog_read_shards(cs, a, &shards, &n, err)) return false;
  for (size_t i = 0; i < n && !x->existing; i++) {
    if (!shard_candidate_overlaps(a, &x->set, shards[i].host)) continue;
    bool same_name = !x->name || strcmp(x->name, shards[i].name) == 0;
    if (!same_name || !shard_candidate_is_set(a, &x->set, shards[i].host)) {
      return error_set(err, ERR_IllegalOperation, "'%s' is already registered as a shard: '%s' is %s", x->set.text,
                       shards[i].name, shards[i].host);
    }
    x->existing = shards[i].name;
  }
  return true;
}

static bool check_databases(struct commit *c, const struct add *x, struct error *err) {
  for (size_t i = 0; i < x->n_databases; i++) {
    struct database_type d;
    bool found;
    if (!catalog_read_database(c->cs, c->arena, x->databases[i], &d, &found, err)) return false;
    if (found) {
      return error_set(err, ERR_OperationFailed,
                       "can't add shard '%s' because a local database '%s' exists in another %s", x->set.text,
                       x->databases[i], d.primary);
    }
  }
  return true;
}

static bool put_databases(struct commit *c, const struct add *x, struct error *err) {
  for (size_t i = 0; i < x->n_databases; i++) {
    struct database_type d = {
        .name = x->databases[i], .primary = x->id, .version = {.timestamp = c->now, .last_mod = 1}};
    uuid_new(d.version.uuid);
    if (!commit_put(c, "config.databases", database_type_doc(c->arena, &d), err) ||
        !commit_placement(c, d.name, NULL, &d.primary, 1, err)) {
      return false;
    }
  }
  return true;
}

static bool commit_add(struct commit *c, void *args, struct error *err) {
  struct add *x = args;
  struct shard_type s;
  bool found;
  if (!look_for_existing(c->cs, c->arena, x, err)) return false;
  if (x->existing) return true;
  if (!catalog_read_shard(c->cs, c->arena, x->id, &s, &found, err)) return false;
  if (found) return error_set(err, ERR_IllegalOperation, "A shard named '%s' exists already: %s", x->id, s.host);
  if (!check_databases(c, x, err)) return false;
  s = (struct shard_type){.name = x->id, .host = x->set.host_string, .topology_time = c->now};
  bson_t *details = arena_bson(c->arena);
  bson_append_utf8(details, "name", -1, s.name, -1);
  bson_append_utf8(details, "host", -1, s.host, -1);
  return commit_put(c, "config.shards", shard_type_doc(c->arena, &s), err) && put_databases(c, x, err) &&
         commit_log(c, "addShard", "", details, err);
}

static bool add(struct request *r, struct add *x, struct error *err) {
  struct config_server *cs = config_of(r);
  struct operation *op = r->op;
  const bson_t *hello;
  static const char *const namespaces[] = {"config.shards", "config.databases"};
  if (!setup_wait(op, cs, err) || !look_for_existing(cs, op->arena, x, err)) return false;
  if (x->existing) return true;
  if (!find_primary(op, cs, x, &hello, err) || !shard_candidate_check(op->arena, &x->set, hello, err)) return false;
  x->id = x->name ? x->name : x->set.set_name;
  if (strcmp(x->id, "config") == 0) {
    return error_set(err, ERR_BadValue, "use of shard replica set with name 'config' is not allowed");
  }
  if (!find_databases(op, cs, x, err) || !give_identity(op, cs, x, err)) return false;
  if (!commit_run(op, cs, namespaces, 2, commit_add, x, err)) return false;
  if (!x->existing) log_info("SHARDING", "Added shard", "shardId:s host:s", x->id, x->set.host_string);
  return true;
}

bool config_add_shard(struct request *r, bson_t *reply, struct error *err) {
  struct add x = {.name = doc_str(r->body, "name", NULL)};
  if (x.name && !*x.name) return error_set(err, ERR_BadValue, "shard name cannot be empty");
  if (!shard_candidate_parse(r->op->arena, r->coll, &x.set, err) || !add(r, &x, err)) return false;
  bson_append_utf8(reply, "shardAdded", -1, x.existing ? x.existing : x.id, -1);
  balancer_wake(config_of(r)->balancer);
  return true;
}
