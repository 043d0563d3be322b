// The frame of a daemon: from the command line to exit code 0.
#include "common/net/daemon.h"

#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/log.h"

const char shardlet_version[] = "8.0.32"; // the MongoDB whose behaviour and protocol clients may expect
const char shardlet_own_version[] = "0.1.0";

static const struct option shared_options[] = {
    {.name = "config",
     .letter = 'f',
     .type = OPTION_STRING,
     .argument = "FILE",
     .help = "read options from a YAML file"},
    {.name = "port",
     .type = OPTION_INT,
     .yaml = "net.port",
     .argument = "N",
     .help = "27017 (mongos), 27018 (shardd), 27019 (configsvr)",
     .min = 1,
     .max = 65535},
    {.name = "bind_ip",
     .type = OPTION_STRING,
     .yaml = "net.bindIp",
     .argument = "LIST",
     .help = "addresses to listen on, with commas (127.0.0.1)"},
    {.name = "bind_ip_all", .type = OPTION_FLAG, .yaml = "net.bindIpAll", .help = "listen on all addresses"},
    {.name = "maxConns",
     .type = OPTION_INT,
     .yaml = "net.maxIncomingConnections",
     .argument = "N",
     .help = "most client connections",
     .min = 5,
     .max = 1000000},
    {.name = "logpath",
     .type = OPTION_STRING,
     .yaml = "systemLog.path",
     .argument = "FILE",
     .help = "where to write the log instead of standard output"},
    {.name = "logappend",
     .type = OPTION_FLAG,
     .yaml = "systemLog.logAppend",
     .help = "go on with an existing log file"},
    {.name = "verbose",
     .letter = 'v',
     .type = OPTION_FLAG,
     .yaml = "systemLog.verbosity",
     .help = "log debug lines too"},
    {.name = "fork",
     .type = OPTION_FLAG,
     .yaml = "processManagement.fork",
     .help = "go to the background when ready (needs --logpath)"},
    {.name = "pidfilepath",
     .type = OPTION_STRING,
     .yaml = "processManagement.pidFilePath",
     .argument = "FILE",
     .help = "write the process id there"},
    {.name = "setParameter",
     .type = OPTION_LIST,
     .yaml = "setParameter",
     .argument = "NAME=VALUE",
     .help = "set a server parameter; may be repeated"},
    {.name = "version", .type = OPTION_FLAG, .help = "print the version and end"},
    {.name = "help", .letter = 'h', .type = OPTION_FLAG, .help = "print this and end"},
};

const struct option *daemon_options(size_t *n) {
  *n = sizeof shared_options / sizeof *shared_options;
  return shared_options;
}

struct process {
  const struct daemon *daemon;
  const struct options *options;
  struct loop *loop;
  uv_signal_t signals[3];
  void *state;
  const char *pid_file; // written by us, to be removed; NULL = none
  int ready_fd;         // of --fork: the parent waits for a byte; -1
  bool started, stopping, failed;
  char reason[1200];
};

// A daemon's own options first, then the shared ones.
static const struct option *join_options(struct arena *a, const struct option *own) {
  size_t n_own = 0, n_shared;
  while (own && own[n_own].name) n_own++;
  const struct option *shared = daemon_options(&n_shared);
  struct option *all = arena_zalloc(a, (n_own + n_shared + 1) * sizeof *all);
  if (n_own) memcpy(all, own, n_own * sizeof *all);
  memcpy(all + n_own, shared, n_shared * sizeof *all);
  return all;
}

static bool write_pid_file(struct process *p, struct error *err) {
  const char *path = options_string(p->options, "pidfilepath", NULL);
  if (!path) return true;
  FILE *f = fopen(path, "we");
  if (f) (void)fprintf(f, "%ld\n", (long)getpid());
  if (!f || fclose(f) != 0) {
    return error_set(
        err, ERR_OperationFailed,
        "cannot write the pid file %s as user %ld: %s: choose another --pidfilepath, or change its folder's "
        "owner",
        path, (long)geteuid(), strerror(errno));
  }
  p->pid_file = path;
  return true;
}

static void stop_signals(struct process *p) {
  for (size_t i = 0; i < sizeof p->signals / sizeof *p->signals; i++) uv_close((uv_handle_t *)&p->signals[i], NULL);
}

static void run_stop(struct operation *op, void *arg) {
  struct process *p = arg;
  p->daemon->stop(op, p->state);
  stop_signals(p);
  loop_stop(p->loop);
}

static void begin_stop(struct process *p, const char *why) {
  p->stopping = true;
  log_info("CONTROL", "Shutting down", "reason:s", why);
  (void)operation_start(p->loop, "shutdown", run_stop, p);
}

static void on_signal(uv_signal_t *handle, int number) {
  struct process *p = handle->data;
  if (number == SIGUSR1) {
    log_reopen();
    return;
  }
  if (p->stopping || !p->started) { // a second one, or nothing to end in order yet
    log_warn("CONTROL", "Ending at once", "signal:d", number);
    if (p->pid_file) (void)unlink(p->pid_file);
    _exit(p->stopping ? 1 : 0);
  }
  begin_stop(p, number == SIGTERM ? "SIGTERM" : "SIGINT");
}

static void watch_signals(struct process *p) {
  static const int numbers[] = {SIGTERM, SIGINT, SIGUSR1};
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
    p->signals[i].data = p;
    (void)uv_signal_init(loop_uv(p->loop), &p->signals[i]);
    (void)uv_signal_start(&p->signals[i], on_signal, numbers[i]);
    uv_unref((uv_handle_t *)&p->signals[i]);
  }
}

void daemon_shutdown(struct loop *l) {
  (void)l; // the way a signal takes, so that there is one way to end
  (void)kill(getpid(), SIGTERM);
}

static void run_start(struct operation *op, void *arg) {
  struct process *p = arg;
  struct error err = {0};
  bool up = p->daemon->start(op, p->loop, p->options, &p->state, &err);
  if (!up || !write_pid_file(p, &err)) {
    log_error("CONTROL", "Cannot start", "error:e", &err);
    (void)snprintf(p->reason, sizeof p->reason, "%s", err.message);
    p->failed = true;
    if (up) p->daemon->stop(op, p->state);
    stop_signals(p);
    loop_stop(p->loop);
    return;
  }
  p->started = true;
  if (p->ready_fd >= 0) {
    (void)!write(p->ready_fd, "r", 1);
    (void)close(p->ready_fd);
  }
}

// Leaves the terminal. In the child returns the descriptor on which it says that it is ready; the parent ends here with
// the child's success or failure.
static int go_to_background(void) {
  int ends[2];
  if (pipe(ends) != 0) return -1;
  pid_t child = fork();
  if (child < 0) return -1;
  if (child > 0) {
    (void)close(ends[1]);
    char byte;
    bool ready = read(ends[0], &byte, 1) == 1;
    (void)printf("forked process: %ld\n", (long)child);
    (void)printf(ready ? "child process started successfully, parent exiting\n"
                       : "ERROR: child process failed, see the log file\n");
    (void)fflush(stdout);
    _exit(ready ? 0 : 1);
  }
  (void)close(ends[0]);
  (void)setsid();
  int null = open("/dev/null", O_RDWR | O_CLOEXEC);
  for (int fd = 0; null >= 0 && fd < 3; fd++) (void)dup2(null, fd);
  return ends[1];
}

static int refuse(const struct daemon *d, const char *why) {
  (void)fprintf(stderr, "%s: %s\n", d->program, why);
  return 1;
}

static int run(struct process *p) {
  const struct options *o = p->options;
  log_info("CONTROL", "Starting", "program:s version:s ownVersion:s pid:l", p->daemon->program, shardlet_version,
           shardlet_own_version, (int64_t)getpid());
  (void)signal(SIGPIPE, SIG_IGN);
  (void)setenv("UV_THREADPOOL_SIZE", "16", 0);
  (void)mallopt(M_ARENA_MAX, 2); // the pool's threads allocate little: they need no heaps of their own
  if (options_has(o, "verbose")) log_set_verbosity(LOG_DEBUG);
  p->loop = loop_new();
  watch_signals(p);
  (void)operation_start(p->loop, "initandlisten", run_start, p);
  loop_run(p->loop);
  loop_free(p->loop);
  if (p->pid_file) (void)unlink(p->pid_file);
  if (p->failed) return refuse(p->daemon, p->reason);
  log_info("CONTROL", "Ended", "exitCode:d", 0);
  return 0;
}

int daemon_main(const struct daemon *d, int argc, char **argv) {
  __attribute__((cleanup(arena_cleanup))) struct arena *a = arena_new();
  struct error err = {0};
  struct process p = {.daemon = d, .ready_fd = -1};
  const struct option *table = join_options(a, d->own_options);
  p.options = options_parse(a, table, argc, argv, &err);
  if (!p.options) return refuse(d, err.message);
  if (options_has(p.options, "help")) {
    (void)fputs(options_help(a, d->program, d->summary, table), stdout);
    return 0;
  }
  if (options_has(p.options, "version")) {
    // The first line is MongoDB's, which tools that start clusters look for.
    (void)printf("%s version v%s\nshardlet %s (%s)\n", strcmp(d->program, "mongos") != 0 ? "db" : "mongos",
                 shardlet_version, shardlet_own_version, d->program);
    return 0;
  }
  const char *log_path = options_string(p.options, "logpath", NULL);
  bool background = options_has(p.options, "fork");
  if (background && !log_path)
    return refuse(d, "--fork needs --logpath: there is nobody left to read the log otherwise");
  if (!log_open(log_path, options_has(p.options, "logappend"), &err)) return refuse(d, err.message);
  if (background) {
    p.ready_fd = go_to_background();
    if (p.ready_fd < 0) return refuse(d, "cannot go to the background");
  }
  return run(&p);
}
