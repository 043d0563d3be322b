// Starting, disturbing and ending the daemons. See fleet.h.
#include "tests/chaos/fleet.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
  START_MS = 60000,
  END_MS = 30000,
  POLL_MS = 50,
  TAIL_LINES = 12,
  SMALL_DISK_BYTES = 512 << 20,
  FULL_DISK_GRACE_MS = 15000,
  YOUNG_MS = 3000,
};

int fleet_sets(const struct fleet *f) {
  return 1 + f->plan.shards;
}

static int members_of(const struct fleet *f, int set) {
  return set ? f->plan.members : f->plan.config_members;
}

struct member_daemon *fleet_member(struct fleet *f, int set, int member) {
  for (int i = 0; i < f->n; i++)
    if (f->daemons[i].set == set && f->daemons[i].member == member) return &f->daemons[i];
  return NULL;
}

struct member_daemon *fleet_router(struct fleet *f, int i) {
  return fleet_member(f, -1, i);
}

const char *fleet_set_name(int set, char buf[8]) {
  (void)snprintf(buf, 8, set ? "sh%d" : "cfg", set & 7);
  return buf;
}

static int index_of(const struct fleet *f, const struct member_daemon *d) {
  return (int)(d - f->daemons);
}

// --- single daemons ---

static void show_tail(const struct process *p) {
  char cmd[1200];
  (void)snprintf(cmd, sizeof cmd, "tail -n %d '%s/%s.log'; tail -n 60 '%s/%s.out'", TAIL_LINES, p->folder, p->name,
                 p->folder, p->name);
  (void)fflush(stdout);
  (void)!system(cmd);
}

void daemon_start(struct fleet *f, struct member_daemon *d) {
  if (d->state != STATE_DOWN) return;
  process_launch(&d->process);
  d->state = STATE_UP;
  d->started_ms = now_ms();
  proxies_pid(f->proxies, index_of(f, d), d->process.pid);
}

static void gone(struct fleet *f, struct member_daemon *d) {
  d->process.pid = 0;
  d->state = STATE_DOWN;
  proxies_pid(f->proxies, index_of(f, d), 0);
}

void daemon_kill(struct fleet *f, struct member_daemon *d) {
  if (d->state == STATE_DOWN) return;
  (void)kill(d->process.pid, SIGKILL);
  (void)waitpid(d->process.pid, NULL, 0);
  gone(f, d);
}

void daemon_wipe(struct fleet *f, struct member_daemon *d) {
  char cmd[400];
  daemon_kill(f, d);
  (void)snprintf(cmd, sizeof cmd, "find '%s/%s' -mindepth 1 -delete", d->process.folder, d->process.name);
  (void)!system(cmd);
}

void daemon_end(struct fleet *f, struct member_daemon *d) {
  if (d->state != STATE_UP) return;
  (void)kill(d->process.pid, SIGTERM);
  d->state = STATE_ENDING;
  d->ending_since_ms = now_ms();
}

void daemon_stop(struct fleet *f, struct member_daemon *d) {
  if (d->state != STATE_UP) return;
  (void)kill(d->process.pid, SIGSTOP);
  d->state = STATE_STOPPED;
}

void daemon_go_on(struct fleet *f, struct member_daemon *d) {
  if (d->state != STATE_STOPPED) return;
  (void)kill(d->process.pid, SIGCONT);
  d->state = STATE_UP;
}

// How a daemon ended that nobody killed.
static void judge_end(struct fleet *f, struct member_daemon *d, int status) {
  bool told = d->state == STATE_ENDING, clean = WIFEXITED(status) && WEXITSTATUS(status) == 0;
  bool too_young = WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM && now_ms() - d->started_ms < YOUNG_MS;
  if (told && (clean || too_young)) return; // SIGTERM may come before the program knows what to do with it
  if (now_ms() < d->may_end_until_ms && WIFEXITED(status)) {
    report_event(f->report, "%s ended with its disk full (exit code %d)", d->process.name, WEXITSTATUS(status));
    return;
  }
  report_violation(f->report, "%s %s with %s %d", d->process.name, told ? "ended" : "ended by itself",
                   WIFSIGNALED(status) ? "signal" : "exit code",
                   WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
  show_tail(&d->process);
}

static void poll_one(struct fleet *f, struct member_daemon *d) {
  int status;
  if (d->state == STATE_DOWN) return;
  if (waitpid(d->process.pid, &status, WNOHANG) == d->process.pid) {
    bool freed = d->may_end_until_ms != INT64_MAX && now_ms() < d->may_end_until_ms && d->state == STATE_UP;
    judge_end(f, d, status);
    gone(f, d);
    if (freed) daemon_start(f, d); // it ended although its disk has been freed by now
  } else if (d->state == STATE_ENDING && now_ms() - d->ending_since_ms > END_MS) {
    report_violation(f->report, "%s does not end %d s after SIGTERM", d->process.name, END_MS / 1000);
    show_tail(&d->process);
    (void)kill(d->process.pid, SIGABRT); // its core or the sanitizer tells where it stood
    (void)waitpid(d->process.pid, NULL, 0);
    gone(f, d);
  }
}

void fleet_poll(struct fleet *f) {
  for (int i = 0; i < f->n; i++) poll_one(f, &f->daemons[i]);
}

// --- small disks ---

static void disk_path(const struct member_daemon *d, const char *file, char path[400]) {
  (void)snprintf(path, 400, "%s/%s%s", d->process.folder, d->process.name, file);
}

static bool mount_small_disk(struct member_daemon *d) {
  char path[400], options[64];
  disk_path(d, "", path);
  (void)snprintf(options, sizeof options, "size=%d,mode=0700", SMALL_DISK_BYTES);
  (void)mkdir(path, 0700);
  return mount("shardlet-chaos", path, "tmpfs", 0, options) == 0;
}

void daemon_fill_disk(struct member_daemon *d, int64_t leave_bytes) {
  char path[400], folder[400];
  struct statvfs fs;
  disk_path(d, "", folder);
  disk_path(d, "/filler", path);
  if (!d->small_disk || statvfs(folder, &fs)) return;
  int64_t take = (int64_t)(fs.f_bavail * fs.f_frsize) - leave_bytes;
  if (!leave_bytes) d->may_end_until_ms = INT64_MAX;
  int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  if (fd >= 0 && take > 0) (void)posix_fallocate(fd, 0, take);
  if (fd >= 0) (void)close(fd);
}

void daemon_free_disk(struct fleet *f, struct member_daemon *d) {
  char path[400];
  disk_path(d, "/filler", path);
  if (!d->small_disk) return;
  (void)unlink(path);
  if (d->may_end_until_ms != INT64_MAX) return;
  d->may_end_until_ms = now_ms() + FULL_DISK_GRACE_MS; // it may be about to end
  daemon_start(f, d);
}

// --- asking ---

mongoc_client_t *fleet_direct_client(const struct member_daemon *d, int wait_ms) {
  char uri[300];
  (void)snprintf(uri, sizeof uri,
                 "mongodb://127.0.0.1:%d/?directConnection=true&connectTimeoutMS=%d&serverSelectionTimeoutMS=%d&"
                 "socketTimeoutMS=%d&appname=chaos",
                 d->process.port, wait_ms, wait_ms, wait_ms);
  mongoc_client_t *c = mongoc_client_new(uri);
  (void)mongoc_client_set_error_api(c, MONGOC_ERROR_API_VERSION_2);
  return c;
}

mongoc_client_t *fleet_router_client(struct fleet *f, int routers) {
  char uri[400], hosts[100] = "";
  for (int i = 0; i < FLEET_ROUTERS; i++) {
    size_t n = strlen(hosts);
    if (!(routers & 1 << i)) continue;
    (void)snprintf(hosts + n, sizeof hosts - n, "%s127.0.0.1:%d", n ? "," : "", fleet_router(f, i)->process.port);
  }
  (void)snprintf(uri, sizeof uri,
                 "mongodb://%s/?connectTimeoutMS=2000&serverSelectionTimeoutMS=4000&serverSelectionTryOnce=false&"
                 "socketTimeoutMS=20000&heartbeatFrequencyMS=2000&localThresholdMS=1000&appname=chaos",
                 hosts);
  mongoc_client_t *c = mongoc_client_new(uri);
  (void)mongoc_client_set_error_api(c, MONGOC_ERROR_API_VERSION_2);
  return c;
}

// Whether the member says this of itself in its hello.
static bool says(const struct member_daemon *d, const char *field) {
  if (d->state != STATE_UP) return false;
  mongoc_client_t *c = fleet_direct_client(d, 1000);
  bson_t reply;
  bson_iter_t it;
  bool ok =
      command(c, "admin", &reply, "{'hello':1}") && bson_iter_init_find(&it, &reply, field) && bson_iter_as_bool(&it);
  bson_destroy(&reply);
  mongoc_client_destroy(c);
  return ok;
}

bool fleet_set_is_well(struct fleet *f, int set) {
  for (int m = 0; m < members_of(f, set); m++) {
    const struct member_daemon *d = fleet_member(f, set, m);
    if (!says(d, "isWritablePrimary") && !says(d, "secondary")) return false;
  }
  return true;
}

struct member_daemon *fleet_primary(struct fleet *f, int set) {
  for (int m = 0; m < members_of(f, set); m++) {
    struct member_daemon *d = fleet_member(f, set, m);
    if (says(d, "isWritablePrimary")) return d;
  }
  return NULL;
}

static bool router_answers(struct member_daemon *d) {
  mongoc_client_t *c = fleet_direct_client(d, 1000);
  bson_t reply;
  bool ok = command(c, "admin", &reply, "{'ping':1}");
  bson_destroy(&reply);
  mongoc_client_destroy(c);
  return ok;
}

static bool all_usable(struct fleet *f) {
  for (int set = 0; set < fleet_sets(f); set++)
    if (!fleet_primary(f, set)) return false;
  for (int i = 0; i < FLEET_ROUTERS; i++)
    if (!router_answers(fleet_router(f, i))) return false;
  return true;
}

static bool wait_usable(struct fleet *f, int ms) {
  int64_t end = now_ms() + ms;
  while (!all_usable(f)) {
    fleet_poll(f);
    if (now_ms() > end) return false;
    wait_ms(POLL_MS);
  }
  return true;
}

bool fleet_heal(struct fleet *f, int ms) {
  proxies_pass_all(f->proxies);
  for (int i = 0; i < f->n; i++) {
    struct member_daemon *d = &f->daemons[i];
    daemon_free_disk(f, d);
    daemon_go_on(f, d);
    while (d->state == STATE_ENDING) {
      wait_ms(POLL_MS);
      fleet_poll(f);
    }
    fleet_poll(f);
    daemon_start(f, d);
  }
  if (wait_usable(f, ms)) return true;
  report_violation(f->report, "with everything running and connected again, the cluster is not usable after %d s",
                   ms / 1000);
  for (int i = 0; i < f->n; i++)
    report_event(f->report, "%s is in state %d", f->daemons[i].process.name, (int)f->daemons[i].state);
  return false;
}

// --- start ---

static bool add_daemon(struct fleet *f, const char *program, int set, int member, const char *name) {
  struct member_daemon *d = &f->daemons[f->n];
  *d = (struct member_daemon){.set = set, .member = member, .state = STATE_DOWN};
  d->process = (struct process){.program = program, .port = free_port()};
  (void)snprintf(d->process.name, sizeof d->process.name, "%s-%d", name, member);
  (void)snprintf(d->process.folder, sizeof d->process.folder, "%s", f->folder);
  d->proxy_port = proxies_add(f->proxies, f->n, d->process.port);
  f->n++;
  return d->proxy_port != 0;
}

static void append_hosts(struct fleet *f, int set, char *to, size_t size) {
  char name[8];
  size_t n = strlen(to);
  n += (size_t)snprintf(to + n, size - n, "%s/", fleet_set_name(set, name));
  for (int m = 0; m < members_of(f, set); m++)
    n += (size_t)snprintf(to + n, size - n, "%s127.0.0.1:%d", m ? "," : "", fleet_member(f, set, m)->proxy_port);
}

static bool add_set(struct fleet *f, int set) {
  char name[8];
  const char *program = set ? "shardd" : "configsvr";
  fleet_set_name(set, name);
  for (int m = 0; m < members_of(f, set); m++) {
    if (!add_daemon(f, program, set, m, name)) return false;
    struct member_daemon *d = &f->daemons[f->n - 1];
    (void)snprintf(d->process.arguments, sizeof d->process.arguments, "--replSet %s --setParameter %s", name,
                   set ? "orphanCleanupDelaySecs=2 --setParameter rangeFileMergeIntervalSecs=1"
                       : "balancerRoundIntervalMs=1000");
    if (f->plan.small_disks && set == f->plan.shards) d->small_disk = mount_small_disk(d);
  }
  return true;
}

static bool initiate(struct fleet *f, int set) {
  char config[600], name[8];
  size_t n = (size_t)snprintf(config, sizeof config, "{'replSetInitiate':{'_id':'%s','version':1%s,'members':[",
                              fleet_set_name(set, name), set ? "" : ",'configsvr':true");
  for (int m = 0; m < members_of(f, set); m++)
    n += (size_t)snprintf(config + n, sizeof config - n, "%s{'_id':%d,'host':'127.0.0.1:%d'}", m ? "," : "", m,
                          fleet_member(f, set, m)->proxy_port);
  (void)snprintf(config + n, sizeof config - n, "]}}");
  int64_t end = now_ms() + START_MS;
  bool ok = false;
  while (!ok && now_ms() < end) {
    mongoc_client_t *c = fleet_direct_client(fleet_member(f, set, 0), 5000);
    bson_t reply;
    ok = command(c, "admin", &reply, "%s", config);
    bson_destroy(&reply);
    mongoc_client_destroy(c);
    fleet_poll(f);
    if (!ok) wait_ms(POLL_MS);
  }
  return ok;
}

static bool add_routers(struct fleet *f) {
  char config[200] = "", shards[400] = "";
  append_hosts(f, 0, config, sizeof config);
  for (int set = 1; set < fleet_sets(f); set++) {
    if (set > 1) (void)strncat(shards, ";", sizeof shards - strlen(shards) - 1);
    append_hosts(f, set, shards, sizeof shards);
  }
  for (int i = 0; i < FLEET_ROUTERS; i++) {
    if (!add_daemon(f, "mongos", -1, i, "mongos")) return false;
    struct process *p = &f->daemons[f->n - 1].process;
    (void)snprintf(p->arguments, sizeof p->arguments, "--configdb %s --addShards %s", config, shards);
    daemon_start(f, &f->daemons[f->n - 1]);
  }
  return true;
}

bool fleet_start(struct fleet *f, const struct fleet_plan *plan, const char *folder, struct report *r) {
  *f = (struct fleet){.report = r, .plan = *plan};
  (void)snprintf(f->folder, sizeof f->folder, "%s", folder);
  f->proxies = proxies_start(MAX_DAEMONS);
  bool ok = f->proxies != NULL;
  for (int set = 0; ok && set < fleet_sets(f); set++) {
    ok = add_set(f, set);
    for (int m = 0; ok && m < members_of(f, set); m++) daemon_start(f, fleet_member(f, set, m));
    ok = ok && initiate(f, set);
  }
  ok = ok && add_routers(f) && wait_usable(f, START_MS);
  if (!ok) {
    report_violation(r, "the cluster did not start");
    for (int i = 0; i < f->n; i++) show_tail(&f->daemons[i].process);
  }
  return ok;
}

void fleet_end(struct fleet *f) {
  for (int i = f->n - 1; i >= 0; i--) {
    struct member_daemon *d = &f->daemons[i];
    daemon_go_on(f, d);
    daemon_end(f, d);
    while (d->state != STATE_DOWN) {
      wait_ms(5);
      poll_one(f, d);
    }
    char path[400];
    disk_path(d, "", path);
    if (d->small_disk) (void)umount2(path, MNT_DETACH);
  }
  proxies_stop(f->proxies);
}
