// What every daemon does around its work: options, log, pid file, --fork, signals, orderly end.
#ifndef SHARDLET_NET_DAEMON_H
#define SHARDLET_NET_DAEMON_H

#include "common/base/options.h"
#include "common/net/operation.h"

// The options all three share, to be joined with a daemon's own: port, bind_ip, bind_ip_all, logpath, logappend, fork,
// pidfilepath, setParameter, config, verbose, maxConns, version, help.
const struct option *daemon_options(size_t *n);

struct daemon {
  const char *program, *summary;
  const struct option *own_options;
  // Called in the loop's first fiber. Sets up everything and returns; false ends the process with code 1 and err's line
  // on stderr and in the log.
  bool (*start)(struct operation *op, struct loop *l, const struct options *o, void **state, struct error *err);
  // SIGTERM, SIGINT, or daemon_shutdown(): in a fiber; must leave no fiber behind. The process then ends with 0.
  void (*stop)(struct operation *op, void *state);
};

int daemon_main(const struct daemon *d, int argc, char **argv);
void daemon_shutdown(struct loop *l); // the `shutdown` command

extern const char shardlet_version[]; // "8.0.32" is what clients are told: see daemon.c
extern const char shardlet_own_version[];

#endif
