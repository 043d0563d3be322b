// Which process is at the other end of a loopback connection. This is how a proxy knows who connects, although every
// daemon has only one address that all its peers use.
#ifndef SHARDLET_CHAOS_PROXY_SOURCE_H
#define SHARDLET_CHAOS_PROXY_SOURCE_H

#include <stddef.h>
#include <sys/types.h>

struct socket_end { // a socket on 127.0.0.1, as its owner has it
  int local_port, remote_port;
  int owner; // out: the index of its process, -1 = none of them
};

// Fills in the owners among these processes (0 entries are skipped). Costs a look at every open file of all of them,
// so better for many sockets at once. diag: see socket_diag_open().
void socket_owners(int diag, struct socket_end *ends, size_t n, const pid_t *pids, int n_pids);
int socket_diag_open(void); // a netlink socket for it; -1: the kernel has none, /proc/net/tcp is read instead

#endif
