// What a node takes from its command line.
#ifndef SHARDLET_NODE_OPTIONS_H
#define SHARDLET_NODE_OPTIONS_H

#include "common/node/node.h"
#include "common/base/options.h"

int node_port(const char *program, const struct options *o);
const char *const *node_bind_ips(struct arena *a, const struct options *o, size_t *n);
// host:port as others are told to reach this node: the first address it listens on, or the host's name.
const char *node_host_port(struct arena *a, const char *program, const struct options *o);
const char *const *node_initiate_hosts(struct arena *a, const struct options *o, size_t *n); // --initiate; *n = 0: none

#endif
