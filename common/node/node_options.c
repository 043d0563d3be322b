// What a node takes from its command line. See node_options.h.
#include "common/node/node_options.h"

#include <string.h>
#include <unistd.h>

enum { DEFAULT_PORT_SHARD = 27018, DEFAULT_PORT_CONFIG = 27019, MAX_LISTED = 64 };

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
     .help = "initiate a new set: same list for all its members"},
    {.name = "shardsvr", .type = OPTION_FLAG}, // accepted for MongoDB's command lines
    {.name = "configsvr", .type = OPTION_FLAG},
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

const char *const *node_initiate_hosts(struct arena *a, const struct options *o, size_t *n) {
  return split_list(a, o, "initiate", n);
}
