// The schedule of faults. See faults.h.
#include "tests/chaos/faults.h"

#include "common/base/buf.h"
#include "tests/chaos/rng.h"

enum { QUIET_START_MS = 2000, PERCENT_PRIMARY = 55, WIPE_MEMBERS = 3 };

const char *fault_name(enum fault_kind k) {
  static const char *const names[FAULT_KINDS] = {"fault kill",        "fault kill whole set", "fault wipe",
                                                 "fault stop",        "fault restart",        "fault step down",
                                                 "fault router kill", "fault router stop",    "fault disk low",
                                                 "fault disk full",   "fault isolate",        "fault cut",
                                                 "fault deaf",        "fault mute",           "fault delay",
                                                 "fault no peers",    "fault sets apart",     "fault router cut"};
  return names[k];
}

// How often each kind comes: as often as it stands here.
static const enum fault_kind processes[] = {FAULT_KILL,      FAULT_KILL,        FAULT_KILL,        FAULT_STOP,
                                            FAULT_STOP,      FAULT_RESTART,     FAULT_RESTART,     FAULT_STEP_DOWN,
                                            FAULT_STEP_DOWN, FAULT_ROUTER_KILL, FAULT_ROUTER_STOP, FAULT_KILL_SET,
                                            FAULT_DISK_LOW,  FAULT_DISK_FULL,   FAULT_WIPE};
static const enum fault_kind network[] = {FAULT_ISOLATE,  FAULT_ISOLATE, FAULT_CUT,        FAULT_DEAF,
                                          FAULT_MUTE,     FAULT_DELAY,   FAULT_SETS_APART, FAULT_ROUTER_CUT,
                                          FAULT_NO_PEERS, FAULT_NO_PEERS};

static bool possible(enum fault_kind k, const struct fault_plan *p) {
  if ((k == FAULT_DISK_LOW || k == FAULT_DISK_FULL) && !p->small_disks) return false;
  if (k == FAULT_WIPE && (p->members < WIPE_MEMBERS || p->config_members < WIPE_MEMBERS)) return false;
  return !(p->without & 1U << k);
}

// The kinds of a lane that this run can have.
static int kinds_of(int lane, const struct fault_plan *p, enum fault_kind *out) {
  const enum fault_kind *all = lane == LANE_NETWORK ? network : processes;
  size_t size = lane == LANE_NETWORK ? sizeof network / sizeof *network : sizeof processes / sizeof *processes;
  int n = 0;
  for (size_t i = 0; i < size; i++)
    if (possible(all[i], p)) out[n++] = all[i];
  return n;
}

// How long a fault lasts. A member is away for less than the log that the others keep for it.
static int choose_duration(struct rng *r, enum fault_kind k) {
  switch (k) {
  case FAULT_KILL:
  case FAULT_KILL_SET:
  case FAULT_WIPE:
  case FAULT_RESTART:
  case FAULT_ROUTER_KILL: return rng_between(r, 0, 2500);
  case FAULT_STEP_DOWN: return 0;
  case FAULT_DELAY: return rng_between(r, 1000, 6000);
  default: return rng_chance(r, 30) ? rng_between(r, 50, 800) : rng_between(r, 800, 7000);
  }
}

static struct fault choose(struct rng *r, enum fault_kind kind, const struct fault_plan *p, int64_t at) {
  struct fault f = {.at_ms = at, .kind = kind};
  bool of_router = f.kind == FAULT_ROUTER_KILL || f.kind == FAULT_ROUTER_STOP || f.kind == FAULT_ROUTER_CUT;
  bool of_disk = f.kind == FAULT_DISK_LOW || f.kind == FAULT_DISK_FULL;
  f.duration_ms = choose_duration(r, f.kind);
  f.set = of_disk ? p->sets - 1 : rng_below(r, p->sets);
  f.other_set = (f.set + 1 + rng_below(r, p->sets - 1)) % p->sets;
  int members = f.set ? p->members : p->config_members;
  f.member = of_router ? rng_below(r, p->routers) : rng_chance(r, PERCENT_PRIMARY) ? -1 : rng_below(r, members);
  f.delay_ms = rng_between(r, 5, 300);
  f.reset = rng_chance(r, 50);
  return f;
}

size_t faults_plan(uint64_t seed, int lane, const struct fault_plan *p, struct fault **out) {
  struct rng r = rng_stream(seed, lane == LANE_NETWORK ? "network faults" : "process faults");
  size_t n = 0, cap = 0;
  int64_t at = QUIET_START_MS + rng_between(&r, 0, 2000);
  enum fault_kind kinds[sizeof processes / sizeof *processes + sizeof network / sizeof *network];
  int n_kinds = kinds_of(lane, p, kinds);
  *out = NULL;
  while (n_kinds && at < p->run_ms) {
    *out = array_grow(*out, &cap, n + 1, sizeof **out);
    (*out)[n] = choose(&r, kinds[rng_below(&r, n_kinds)], p, at);
    // Often the cluster comes to itself in between, sometimes it does not.
    at += (*out)[n].duration_ms + (rng_chance(&r, 40) ? rng_between(&r, 50, 1000) : rng_between(&r, 1000, 6000));
    n++;
  }
  return n;
}
