// Workloads, faults, checks: `make chaos SECONDS=60 SEED=1`. See README.md beside this file.
//
// A run is a sequence of rounds; each has a cluster of its own and the next seed, so that a failure replays in minutes
// and memory does not grow. The main thread starts the daemons, carries out the faults and watches.
#include <getopt.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/chaos/nemesis.h"
#include "tests/chaos/run.h"

enum { DEFAULT_SECONDS = 60, DEFAULT_ROUND = 180, LEAST_ROUND = 10, TURN_MS = 10, HEAL_MS = 60000 };

struct settings {
  int seconds, round;
  uint64_t seed;
  struct fleet_plan plan;
  uint32_t without; // kinds of faults, as bits
  const char *folder;
  bool keep;
};

static volatile sig_atomic_t interrupted;

static void on_signal(int number) {
  interrupted = number;
}

static bool be_disturbed(struct run *run, const struct settings *s, int seconds) {
  struct nemesis n;
  struct workers workers = {0};
  int64_t end = now_ms() + (int64_t)seconds * 1000;
  workers_start(&workers, run);
  report_writes_begin(&run->report);
  nemesis_begin(&n, &run->fleet, run->seed, (int64_t)seconds * 1000, s->without);
  while (now_ms() < end && !interrupted) {
    nemesis_turn(&n);
    fleet_poll(&run->fleet);
    wait_ms(TURN_MS);
  }
  nemesis_end(&n);
  report_event(&run->report, "the faults are over");
  // The workers go on for a moment: what hangs now hangs for good.
  bool usable = interrupted || fleet_heal(&run->fleet, HEAL_MS);
  for (int i = 0; i < 100 && usable && !interrupted; i++) {
    fleet_poll(&run->fleet);
    wait_ms(TURN_MS * 2);
  }
  report_writes_end(&run->report);
  atomic_store(&run->stop, true);
  workers_stop(&workers);
  return usable;
}

static void set_up_workloads(struct run *run) {
  registers_setup(run);
  lists_setup(run);
  sets_setup(run);
  counters_setup(run);
}

static void remove_data(const char *folder) {
  char cmd[300];
  (void)snprintf(cmd, sizeof cmd, "rm -rf '%s'", folder);
  (void)!system(cmd);
}

static int run_round(const struct settings *s, uint64_t seed, int seconds) {
  char folder[256], data[256];
  struct run *run = calloc(1, sizeof *run);
  run->seed = seed;
  (void)snprintf(folder, sizeof folder, "%s/seed-%llu", s->folder, (unsigned long long)seed);
  (void)snprintf(data, sizeof data, "%s/data", folder);
  remove_data(folder);
  (void)mkdir(s->folder, 0755);
  (void)mkdir(folder, 0755);
  (void)mkdir(data, 0755);
  report_open(&run->report, folder);
  set_up_workloads(run);
  bool ok = fleet_start(&run->fleet, &s->plan, data, &run->report) && chunks_setup(run);
  if (ok && !bank_setup(run)) {
    report_violation(&run->report, "the bank could not be set up");
    ok = false;
  }
  if (ok && be_disturbed(run, s, seconds) && !interrupted) {
    final_checks(run);
    fleet_poll(&run->fleet);
  }
  fleet_end(&run->fleet);
  (void)printf("seed %llu, %d s, %d shards of %d:\n", (unsigned long long)seed, seconds, s->plan.shards,
               s->plan.members);
  report_print(&run->report);
  int violations = run->report.violations;
  if (violations)
    (void)printf("  evidence, logs and data: %s\n", folder);
  else if (!s->keep)
    remove_data(data);
  report_close(&run->report);
  free(run);
  return interrupted ? 130 : violations ? 1 : 0;
}

static uint32_t kinds_named(const char *text) {
  uint32_t kinds = 0;
  for (int k = 0; k < FAULT_KINDS; k++)
    if (strstr(fault_name((enum fault_kind)k), text)) kinds |= 1U << k;
  return kinds;
}

static bool read_settings(int argc, char **argv, struct settings *s) {
  static const struct option options[] = {{"seconds", required_argument, NULL, 's'},
                                          {"round", required_argument, NULL, 'r'},
                                          {"seed", required_argument, NULL, 'n'},
                                          {"shards", required_argument, NULL, 'S'},
                                          {"members", required_argument, NULL, 'm'},
                                          {"config-members", required_argument, NULL, 'c'},
                                          {"folder", required_argument, NULL, 'f'},
                                          {"without", required_argument, NULL, 'w'},
                                          {"only", required_argument, NULL, 'o'},
                                          {"keep", no_argument, NULL, 'k'},
                                          {0}};
  uint32_t only = 0;
  int o;
  while ((o = getopt_long(argc, argv, "", options, NULL)) >= 0) {
    int number = optarg ? atoi(optarg) : 0;
    if (o == 's') s->seconds = number;
    if (o == 'r') s->round = number;
    if (o == 'n') s->seed = strtoull(optarg, NULL, 10);
    if (o == 'S') s->plan.shards = number;
    if (o == 'm') s->plan.members = s->plan.config_members = number;
    if (o == 'c') s->plan.config_members = number;
    if (o == 'f') s->folder = optarg;
    if (o == 'k') s->keep = true;
    if (o == 'w') s->without |= kinds_named(optarg);
    if (o == 'o') only |= kinds_named(optarg);
    if (o == '?') return false;
  }
  if (only) s->without |= ~only;
  return s->seconds > 0 && s->round >= LEAST_ROUND && s->plan.shards >= 1 && s->plan.shards < MAX_SETS &&
         s->plan.members >= 1 && s->plan.members <= MAX_MEMBERS && s->plan.config_members >= 1 &&
         s->plan.config_members <= MAX_MEMBERS &&
         s->plan.config_members + s->plan.shards * s->plan.members + FLEET_ROUTERS <= MAX_DAEMONS;
}

static int run_all(const struct settings *s) {
  int worst = 0, failed = 0, rounds = 0;
  for (int left = s->seconds; left > 0 && worst != 130; rounds++) {
    int seconds = left < s->round + LEAST_ROUND ? left : s->round;
    int result = run_round(s, s->seed + (uint64_t)rounds, seconds);
    failed += result == 1;
    if (result > worst) worst = result;
    left -= seconds;
  }
  (void)printf("chaos: %d rounds, %d with violations%s\n", rounds, failed, worst == 130 ? ", interrupted" : "");
  return worst;
}

int main(int argc, char **argv) {
  struct settings s = {.seconds = DEFAULT_SECONDS,
                       .round = DEFAULT_ROUND,
                       .seed = 1,
                       .plan = {.shards = 2, .members = 3, .config_members = 3, .small_disks = true},
                       .folder = "build/chaos-runs"};
  if (!read_settings(argc, argv, &s)) {
    (void)fprintf(stderr, "chaos [--seconds N] [--round N] [--seed N] [--shards N] [--members N] [--config-members N] "
                          "[--folder DIR] [--without KIND OF FAULT]... [--only KIND OF FAULT]... [--keep]\n");
    return 2;
  }
  struct sigaction act = {.sa_handler = on_signal};
  (void)sigaction(SIGINT, &act, NULL);
  (void)sigaction(SIGTERM, &act, NULL);
  (void)sigaction(SIGHUP, &act, NULL);
  (void)signal(SIGPIPE, SIG_IGN);
  mongoc_init();
  int result = run_all(&s);
  mongoc_cleanup();
  return result;
}
