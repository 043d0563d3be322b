// The settings of a router: getParameter, setParameter and --setParameter.
#ifndef SHARDLET_MONGOS_PARAMETERS_H
#define SHARDLET_MONGOS_PARAMETERS_H

#include "common/base/options.h"
#include "mongos/router.h"

enum { CURSOR_TIMEOUT_MS = 600000 };

void parameters_init(struct router *rt);
// name=value of the command line. err BadValue naming it.
bool parameters_from_options(struct router *rt, const struct options *o, struct error *err);

bool run_get_parameter(struct request *r, bson_t *reply, struct error *err);
bool run_set_parameter(struct request *r, bson_t *reply, struct error *err);

#endif
