// The cluster's logical clock, gossiped on every message as $clusterTime {clusterTime, signature}.
#ifndef SHARDLET_NET_CLUSTER_TIME_H
#define SHARDLET_NET_CLUSTER_TIME_H

#include <bson/bson.h>
#include <stdint.h>

struct cluster_clock {
  uint64_t time;
}; // a BSON timestamp, seconds in the upper half

void cluster_clock_advance(struct cluster_clock *c, uint64_t ts); // never back; not more than a year ahead of the wall
void cluster_clock_read(struct cluster_clock *c, const bson_t *doc); // takes doc.$clusterTime, if there is one
void cluster_clock_append(const struct cluster_clock *c, bson_t *doc);
uint64_t cluster_clock_tick(struct cluster_clock *c); // the next timestamp for a log entry: > all before, >= wall

#endif
