// TCP proxies between the daemons, with a thread of their own.
//
// Each daemon has one proxy, whose port is the address that it is known by, so that everything that others send to it
// comes through here. Who a connection comes from is looked up when it is accepted (proxy_source.h); so there is a rule
// for each ordered pair of daemons, and it holds for the bytes of that direction on all connections between the two,
// whoever opened them. That covers both ways, one way, one member against all, two groups, delays. It does not cover
// the loss of single packets (TCP would repeat them) and connections that are refused below TCP: a connection through a
// silent network is accepted by its proxy and then says nothing.
#ifndef SHARDLET_CHAOS_PROXY_H
#define SHARDLET_CHAOS_PROXY_H

#include <stdbool.h>
#include <sys/types.h>

enum { MAX_DAEMONS = 32 };

enum rule {
  RULE_PASS,
  RULE_SILENT, // bytes of this direction wait; they arrive when the rule is lifted
  RULE_CUT,    // connections between the two are reset and new ones closed
};

struct proxies;

struct proxies *proxies_start(int n_daemons); // NULL: no thread or no sockets
void proxies_stop(struct proxies *p);
// Before the daemon is started first. Returns the proxy's port, 0 = none.
int proxies_add(struct proxies *p, int daemon, int port);
void proxies_pid(struct proxies *p, int daemon, pid_t pid); // 0 = it does not run
void proxies_rule(struct proxies *p, int from, int to, enum rule rule, int delay_ms);
void proxies_reset(struct proxies *p, int a, int b); // resets the connections between the two
void proxies_pass_all(struct proxies *p);

#endif
