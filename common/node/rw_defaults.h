// Defaults of read and write concern (setDefaultRWConcern).
#ifndef SHARDLET_NODE_RW_DEFAULTS_H
#define SHARDLET_NODE_RW_DEFAULTS_H

#include "common/node/node.h"

struct rw_defaults { // what clients of this member get that name none; of a plain replica set only
  bson_t *write;     // NULL = none
  bool has_read;
  enum read_level read;
};

bool set_rw_defaults_run(struct request *r, bson_t *reply, struct error *err);
bool get_rw_defaults_run(struct request *r, bson_t *reply, struct error *err);
// getDefaultRWConcern's reply out of the document of config.settings; an empty one gives the implicit defaults.
void rw_defaults_append(const bson_t *doc, bson_t *reply);
// Reads them again: now and then, for another member may have set them.
void rw_defaults_load(struct node *n);
// Gives a request that names no concern the defaults.
void rw_defaults_apply(const struct node *n, struct request *r);

#endif
