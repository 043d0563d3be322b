// --initiate: a new set comes to be by itself, in whatever order its members are started.
//
// Every member is given the same list. The one that stands first in it initiates the set once all of them answer; the
// others wait for it. Each says for whom it waits. A member that is in a set already does nothing: the list is only for
// the first start.
#ifndef SHARDLET_NODE_INITIATION_H
#define SHARDLET_NODE_INITIATION_H

#include "common/node/node.h"

struct initiation;

// Begins in the background. hosts: "host:port", live as long as the node. When the node has port and data already.
struct initiation *initiation_start(struct node *n, const char *const *hosts, size_t n_hosts);
// Adds the list to the reply of _isSelf, so that members with different lists find out. NULL: there is none.
void initiation_describe(const struct initiation *i, bson_t *reply);

#endif
