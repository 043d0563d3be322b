// What a node takes from its command line. See node_options.h.
#include "common/node/node_options.h"

#include <string.h>
#include <unistd.h>

#include "common/base/log.h"
#include "common/bson/doc.h"
#include "common/node/internal.h"

enum { DEFAULT_PORT_SHARD = 27018, DEFAULT_PORT_CONFIG = 27019, INITIATE_RETRY_MS = 500, MAX_LISTED = 64 };

static const struct option table[] = {
    {.name = "dbpath",
     .type = OPTION_STRING,
     .yaml = "storage.dbPath",
     .argument = "DIR",
     .help = "directory of this member's data"},
    {.name = "replSet",
     .type = OPTION_STRING,
     .yaml = "replication.replSetName",
     .argument = "NAME",
     .help = "replica set this member is of"},
    {.name = "initiate",
     .type = OPTION_LIST,
     .argument = "HOST:PORT,...",
     .help = "initiate the set with these members by itself"},
    {.name = "shardsvr", .type = OPTION_FLAG, .help = "accepted for MongoDB's command lines"},
    {.name = "configsvr", .type = OPTION_FLAG, .help = "accepted for MongoDB's command lines"},
    {0},
};

const struct option *node_option_table(size_t *n) {
  *n = sizeof table / sizeof *table - 1;
  return table;
}

// The words of a list option, also those joined by commas.
static const char **split_list(struct arena *a, const struct options *o, const char *name, size_t *n) {
  size_t given;
  const char *const *list = options_list(o, name, &given);
  const char **out = arena_zalloc(a, MAX_LISTED * sizeof *out);
  *n = 0;
  for (size_t i = 0; i < given; i++) {
    char *copy = arena_strdup(a, list[i]), *rest;
    for (char *word = strtok_r(copy, ",", &rest); word && *n < MAX_LISTED; word = strtok_r(NULL, ",", &rest)) {
      out[(*n)++] = word;
    }
  }
  return out;
}

int node_port(const char *program, const struct options *o) {
  return (int)options_int(o, "port", !strcmp(program, "configsvr") ? DEFAULT_PORT_CONFIG : DEFAULT_PORT_SHARD);
}

const char *const *node_bind_ips(struct arena *a, const struct options *o, size_t *n) {
  const char **ips = split_list(a, o, "bind_ip", n);
  if (options_has(o, "bind_ip_all")) {
    ips[0] = "0.0.0.0";
    *n = 1;
  } else if (*n == 0) {
    ips[0] = "127.0.0.1";
    *n = 1;
  }
  return ips;
}

static bool is_wildcard(const char *ip) {
  return !strcmp(ip, "0.0.0.0") || !strcmp(ip, "::") || !strcmp(ip, "*");
}

const char *node_host_port(struct arena *a, const char *program, const struct options *o) {
  size_t n;
  const char *const *ips = node_bind_ips(a, o, &n);
  char host[256] = "localhost";
  if (is_wildcard(ips[0])) gethostname(host, sizeof host - 1);
  return arena_printf(a, "%s:%d", is_wildcard(ips[0]) ? host : ips[0], node_port(program, o));
}

// --- --initiate ---

struct initiation {
  struct node *node;
  const char **members;
  size_t n;
};

static const bson_t *initial_config(struct arena *a, const struct initiation *i) {
  bson_t *config = arena_bson(a), members, member;
  BSON_APPEND_UTF8(config, "_id", repl_set_name(i->node->repl));
  BSON_APPEND_INT32(config, "version", 1);
  if (!strcmp(i->node->program, "configsvr")) BSON_APPEND_BOOL(config, "configsvr", true);
  BSON_APPEND_ARRAY_BEGIN(config, "members", &members);
  for (size_t k = 0; k < i->n; k++) {
    char text[16];
    const char *key;
    bson_uint32_to_string((uint32_t)k, &key, text, sizeof text);
    BSON_APPEND_DOCUMENT_BEGIN(&members, key, &member);
    BSON_APPEND_INT32(&member, "_id", (int32_t)k);
    BSON_APPEND_UTF8(&member, "host", i->members[k]);
    bson_append_document_end(&members, &member);
  }
  bson_append_array_end(config, &members);
  return config;
}

// Until the set is initiated, by this member or by another one: the members of a set start in any order.
static void initiate(struct operation *op, void *arg) {
  struct initiation *i = arg;
  const char *said = "";
  do {
    struct error err = {0};
    if (repl_config(i->node->repl)) return;
    if (repl_initiate(op, i->node->repl, initial_config(op->arena, i), &err)) return;
    if (err.code == ERR_AlreadyInitialized) return;
    if (strcmp(said, err.message)) {
      log_warn("REPL", "Could not initiate the replica set yet", "error:e", &err);
      said = arena_strdup(i->node->own->arena, err.message);
    }
  } while (op_sleep(op, INITIATE_RETRY_MS, NULL));
}

// Whether a listed member is this one: as it calls itself, by its host's name, or on this host.
static bool is_self(const struct node *n, const char *member) {
  const char *port = strrchr(n->host_port, ':'), *colon = strrchr(member, ':');
  if (!strcmp(member, n->host_port)) return true;
  if (!colon || strcmp(colon, port)) return false;
  char host[256] = "";
  gethostname(host, sizeof host - 1);
  const char *const names[] = {host, "localhost", "127.0.0.1"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    if (strlen(names[i]) == (size_t)(colon - member) && !strncmp(names[i], member, strlen(names[i]))) return true;
  }
  return false;
}

void node_initiate_by_option(struct node *n, const struct options *o) {
  struct initiation *i = arena_zalloc(n->own->arena, sizeof *i);
  i->node = n;
  i->members = split_list(n->own->arena, o, "initiate", &i->n);
  if (i->n == 0 || repl_config(n->repl)) return;
  // The first listed member does it; one that is alone is always the first.
  if (i->n == 1 || is_self(n, i->members[0])) node_background(n, "initiate", initiate, i);
}
