// "host:port" texts and their addresses. Internal to common/net.
#ifndef SHARDLET_NET_ADDRESS_H
#define SHARDLET_NET_ADDRESS_H

#include "common/net/operation.h"

enum { DEFAULT_PORT = 27017, ADDRESSES_MAX = 8 };

struct addresses {
  struct sockaddr_storage at[ADDRESSES_MAX];
  size_t n;
};

// Splits "host", "host:port" or "[v6]:port"; BadValue when it is none of them. *name is allocated from a.
bool address_split(struct arena *a, const char *host, const char **name, int *port, struct error *err);

// The addresses of a host. Waits for the resolver only for names. until_ms: as loop_now_ms(). err: HostNotFound,
// NetworkTimeout.
bool address_resolve(struct operation *op, const char *host, int64_t until_ms, struct addresses *out,
                     struct error *err);

#endif
