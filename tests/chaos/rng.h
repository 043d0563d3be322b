// Random numbers that a seed replays: one independent stream for each user of them, so that what one thread draws does
// not depend on how fast another one is. splitmix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number
// generators").
#ifndef SHARDLET_CHAOS_RNG_H
#define SHARDLET_CHAOS_RNG_H

#include <stdbool.h>
#include <stdint.h>

struct rng {
  uint64_t state;
};

struct rng rng_stream(uint64_t seed, const char *user);
uint64_t rng_next(struct rng *r);
int rng_below(struct rng *r, int n);            // 0 .. n-1; n >= 1
int rng_between(struct rng *r, int lo, int hi); // both included
bool rng_chance(struct rng *r, int percent);

#endif
