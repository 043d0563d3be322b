// The frame of a daemon, in processes of their own: what is printed where, exit codes, pid file, log file,
// configuration file, --fork, signals.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/net/daemon.h"

enum { TEXT = 8192, MAX_WORDS = 16, WAIT_MS = 20000 };

static char folder[] = "/tmp/shardlet-daemon-XXXXXX";

// --- a daemon that does nothing: --fail makes it refuse to start, --ends makes it end by itself ---

static const struct option own_options[] = {
    {.name = "fail", .type = OPTION_STRING, .argument = "WHY", .help = "refuse to start"},
    {.name = "ends", .type = OPTION_FLAG, .help = "end at once"},
    {0},
};

static bool start(struct operation *op, struct loop *l, const struct options *o, void **state, struct error *err) {
  const char *why = options_string(o, "fail", NULL);
  if (why) return error_set(err, ERR_BadValue, "%s", why);
  *state = l;
  if (options_has(o, "ends")) daemon_shutdown(l);
  return true;
}

static void stop(struct operation *op, void *state) {}

static const struct daemon nothing = {
    .program = "nothingd", .summary = "does nothing", .own_options = own_options, .start = start, .stop = stop};

// --- running it ---

struct run {
  pid_t pid;
  int status;
  char out[TEXT], err[TEXT];
};

static void path_of(char path[200], const char *name) {
  (void)snprintf(path, 200, "%s/%s", folder, name);
}

static size_t read_file(const char *path, char text[TEXT]) {
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  ssize_t n = fd < 0 ? 0 : read(fd, text, TEXT - 1);
  if (fd >= 0) (void)close(fd);
  text[n > 0 ? n : 0] = 0;
  return n > 0 ? (size_t)n : 0;
}

// The words are separated by spaces; % stands for the folder.
static void launch(struct run *r, const char *words) {
  static char text[2048];
  char out[200], err[200], *argv[MAX_WORDS + 1], *save;
  size_t n = 0, argc = 0;
  for (const char *w = words; *w && n + sizeof folder < sizeof text; w++) {
    if (*w == '%') {
      n += (size_t)snprintf(text + n, sizeof text - n, "%s", folder);
    } else {
      text[n++] = *w;
    }
  }
  text[n] = 0;
  for (char *w = strtok_r(text, " ", &save); w && argc < MAX_WORDS; w = strtok_r(NULL, " ", &save)) argv[argc++] = w;
  argv[argc] = NULL;
  path_of(out, "out");
  path_of(err, "err");
  (void)fflush(NULL);
  r->pid = fork();
  if (r->pid != 0) return;
  if (!freopen(out, "w", stdout) || !freopen(err, "w", stderr)) _exit(99);
  int code = daemon_main(&nothing, (int)argc, argv);
  (void)fflush(NULL);
  _exit(code);
}

static int finish(struct run *r) {
  char path[200];
  assert_int_equal(waitpid(r->pid, &r->status, 0), r->pid);
  path_of(path, "out");
  (void)read_file(path, r->out);
  path_of(path, "err");
  (void)read_file(path, r->err);
  return WIFEXITED(r->status) ? WEXITSTATUS(r->status) : -1;
}

static int run(struct run *r, const char *words) {
  launch(r, words);
  return finish(r);
}

static void write_file(const char *name, const char *text) {
  char path[200];
  path_of(path, name);
  FILE *f = fopen(path, "w");
  assert_non_null(f);
  assert_true(fputs(text, f) >= 0 && fclose(f) == 0);
}

// --- tests ---

static void help_and_version(void **state) {
  struct run r;
  assert_int_equal(run(&r, "nothingd --help"), 0);
  assert_non_null(strstr(r.out, "does nothing"));
  assert_non_null(strstr(r.out, "--pidfilepath"));
  assert_non_null(strstr(r.out, "--fail"));
  assert_int_equal(run(&r, "nothingd --version"), 0);
  assert_int_equal(strncmp(r.out, "db version v", 12), 0);
  assert_non_null(strstr(r.out, shardlet_own_version));
  assert_string_equal(r.err, "");
}

// Each names the program and what is wrong, in one line on stderr, and nothing else happens.
static void bad_words(void **state) {
  static const char *const words[] = {
      "nothingd --colour blue",
      "nothingd --port 0",
      "nothingd --port 65536",
      "nothingd --port 80x",
      "nothingd --port",
      "nothingd --maxConns 1",
      "nothingd --fork",
      "nothingd --config %/not-there",
      "nothingd --logpath %/no/log",
      "nothingd word",
      "nothingd --config %/bad.yaml",
      "nothingd --config %/unknown.yaml",
      "nothingd --config %/port.yaml",
  };
  write_file("bad.yaml", "net: [port: {");
  write_file("unknown.yaml", "net:\n  colour: blue\n");
  write_file("port.yaml", "net:\n  port: blue\n");
  for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
    struct run r;
    if (run(&r, words[i]) != 1) fail_msg("%s: status %d", words[i], r.status);
    const char *end = strchr(r.err, '\n');
    if (strncmp(r.err, "nothingd: ", 10) != 0 || !end || end[1]) fail_msg("%s: %s", words[i], r.err);
    assert_string_equal(r.out, "");
  }
}

static void refused_start(void **state) {
  struct run r;
  assert_int_equal(run(&r, "nothingd --fail because"), 1);
  assert_string_equal(r.err, "nothingd: because\n");
  assert_non_null(strstr(r.out, "\"msg\":\"Cannot start\""));
  assert_int_equal(run(&r, "nothingd --pidfilepath %/no/pid"), 1);
  assert_non_null(strstr(r.err, "pid file"));
}

static void configuration_file(void **state) {
  char path[200], text[TEXT];
  struct run r;
  path_of(path, "good.yaml");
  FILE *f = fopen(path, "w");
  assert_non_null(f);
  (void)fprintf(f, "systemLog:\n  path: %s/file.log\nnet:\n  port: 12345\n", folder);
  (void)fclose(f);
  assert_int_equal(run(&r, "nothingd --config %/good.yaml --ends"), 0);
  assert_string_equal(r.out, "");
  path_of(path, "file.log");
  assert_true(read_file(path, text) > 0);
  assert_non_null(strstr(text, "\"msg\":\"Ended\""));
  // The command line wins.
  assert_int_equal(run(&r, "nothingd -f %/good.yaml --logpath %/other.log --ends"), 0);
  path_of(path, "other.log");
  assert_true(read_file(path, text) > 0);
  size_t first = strlen(text);
  assert_int_equal(run(&r, "nothingd --logpath %/other.log --logappend --ends"), 0);
  assert_true(read_file(path, text) > first);
  assert_int_equal(run(&r, "nothingd --logpath %/other.log --ends"), 0);
  assert_true(read_file(path, text) < 2 * first);
}

static bool wait_for_file(const char *path, bool there) {
  for (int ms = 0; ms < WAIT_MS && (access(path, F_OK) == 0) != there; ms++) (void)usleep(1000);
  return (access(path, F_OK) == 0) == there;
}

static void signals(void **state) {
  char path[200], text[TEXT], moved[200], log[200];
  static const int ends[] = {SIGTERM, SIGINT};
  path_of(path, "pid");
  path_of(log, "signal.log");
  path_of(moved, "signal.log.1");
  for (size_t i = 0; i < 2; i++) {
    struct run r;
    launch(&r, "nothingd --pidfilepath %/pid --logpath %/signal.log");
    assert_true(wait_for_file(path, true));
    for (int ms = 0; ms < WAIT_MS && !read_file(path, text); ms++) (void)usleep(1000);
    assert_int_equal(atoi(text), r.pid);
    assert_int_equal(rename(log, moved), 0); // as logrotate does
    assert_int_equal(kill(r.pid, SIGUSR1), 0);
    assert_true(wait_for_file(log, true));
    assert_int_equal(kill(r.pid, ends[i]), 0);
    assert_int_equal(finish(&r), 0);
    assert_true(wait_for_file(path, false));
    assert_true(read_file(log, text) > 0);
    assert_non_null(strstr(text, i ? "SIGINT" : "SIGTERM"));
  }
}

static void background(void **state) {
  char path[200], text[TEXT];
  struct run r;
  assert_int_equal(run(&r, "nothingd --fork --logpath %/fork.log --pidfilepath %/pid"), 0);
  assert_non_null(strstr(r.out, "child process started successfully"));
  path_of(path, "pid");
  assert_true(read_file(path, text) > 0);
  pid_t child = atoi(text);
  assert_true(child > 1 && child != r.pid);
  assert_int_equal(kill(child, SIGTERM), 0);
  assert_true(wait_for_file(path, false));
  assert_int_equal(run(&r, "nothingd --fork --logpath %/fork.log --fail because"), 1);
  assert_non_null(strstr(r.out, "child process failed"));
}

static int make_folder(void **state) {
  return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state) {
  char command[100];
  (void)snprintf(command, sizeof command, "rm -rf '%s'", folder);
  return system(command);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(help_and_version),   cmocka_unit_test(bad_words), cmocka_unit_test(refused_start),
      cmocka_unit_test(configuration_file), cmocka_unit_test(signals),   cmocka_unit_test(background),
  };
  return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
