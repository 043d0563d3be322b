// Seeded random streams. See rng.h.
#include "tests/chaos/rng.h"

uint64_t rng_next(struct rng *r) {
  uint64_t z = r->state += 0x9e3779b97f4a7c15U;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
  return z ^ (z >> 31);
}

struct rng rng_stream(uint64_t seed, const char *user) {
  struct rng r = {seed};
  for (; *user; user++) r.state = rng_next(&r) ^ (uint8_t)*user;
  return r;
}

int rng_below(struct rng *r, int n) {
  return (int)(rng_next(r) % (uint64_t)n);
}

int rng_between(struct rng *r, int lo, int hi) {
  return lo + rng_below(r, hi - lo + 1);
}

bool rng_chance(struct rng *r, int percent) {
  return rng_below(r, 100) < percent;
}
