// The auto-merger. Internal to the balancer's files.
#ifndef SHARDLET_CONFIGSVR_BALANCER_MERGE_H
#define SHARDLET_CONFIGSVR_BALANCER_MERGE_H

#include "configsvr/balancer_view.h"

bool merge_due(const struct balancer_term *term, const struct balancer_view *v); // autoMergerIntervalSecs have passed
bool merge_all(struct operation *op, struct balancer_term *term, const struct balancer_view *v, struct error *err);

#endif
