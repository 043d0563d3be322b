// Which process is at the other end of a loopback connection: /proc tells. This is how a proxy knows who connects,
// although every daemon has only one address that all its peers use.
#ifndef SHARDLET_CHAOS_PROXY_SOURCE_H
#define SHARDLET_CHAOS_PROXY_SOURCE_H

#include <sys/types.h>

// The index in `pids` (0 entries are skipped) of the process that has the socket with this local and remote port on
// 127.0.0.1; -1: none of them.
int socket_owner(int local_port, int remote_port, const pid_t *pids, int n);

#endif
