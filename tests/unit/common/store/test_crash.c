// kill -9 of a process that applies entries, commits, unlinks and reopens at any moment, again and again: replaying the
// log always gives what a straight run gives.
#include <signal.h>
#include <sys/wait.h>

#include "common/base/log.h"
#include "tests/unit/common/store/script.h"

enum { ENTRIES = 1500, KILLS = 40 };

static void remove_forgotten(struct store *s) {
  store_commit_all(s);
  db_sync_wal(&s->catalog);
  struct removal *gone = removal_take(s, s->catalog.applied);
  removal_unlink(gone);
  removal_free(gone);
}

// What a member does from its start to its end: replays, serves, commits in its own rhythm.
static void run(const char *dir, const struct script *script, uint64_t seed) {
  struct script random = {.random = seed};
  struct error err = {0};
  struct store *s = store_open(&(struct store_options){.dbpath = dir, .role = "shardd", .max_open_files = 6}, &err);
  if (!s) _exit(2);
  uint64_t at = store_applied(s), target = store_replay_target(s);
  bool replayed = false;
  while (at < ENTRIES) {
    at++;
    store_apply(s, at, script->entries[at - 1]);
    if (!replayed && at >= target) {
      store_replay_done(s);
      replayed = true;
    }
    switch (pick(&random, 60)) {
    case 0: store_commit_all(s); break;
    case 1:
      for (struct db *d = s->all; d; d = d->next) { // some of them
        if (pick(&random, 2) && db_has_transaction(d)) db_commit(d);
      }
      break;
    case 2: remove_forgotten(s); break;
    case 3:
      for (struct db *d = s->all; d; d = d->next) {
        if (d->sql && pick(&random, 2)) {
          db_commit(d);
          db_checkpoint(d);
        }
      }
      break;
    case 4:
      if (pick(&random, 4) == 0 && replayed) {
        store_close(s);
        s = store_open(&(struct store_options){.dbpath = dir, .role = "shardd", .max_open_files = 6}, &err);
        if (!s) _exit(3);
        at = store_applied(s);
        store_replay_done(s);
      }
      break;
    default: break;
    }
  }
  store_close(s);
  _exit(0);
}

static void test_kills(void **state) {
  char dir[40], straight[40];
  (void)snprintf(dir, sizeof dir, "%s/store-crash-XXXXXX", base_folder());
  strcpy(straight, dir);
  assert_non_null(mkdtemp(dir));
  assert_non_null(mkdtemp(straight));
  struct script *script = script_new(99, ENTRIES);
  struct store *s = open_at(straight);
  int64_t start = clock_mono_us();
  script_apply(script, s, 1, ENTRIES);
  store_replay_done(s);
  int64_t whole_run_us = clock_mono_us() - start;
  struct buf expected = dump(s);
  store_close(s);
  struct script random = {.random = 12};
  int finished = 0, killed = 0;
  for (int i = 0; i < KILLS; i++) {
    pid_t pid = fork();
    if (pid == 0) run(dir, script, (uint64_t)i);
    usleep((useconds_t)(1000 + (whole_run_us >> 10) * pick(&random, 1200))); // sometimes it gets to the end
    (void)kill(pid, SIGKILL);
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (WIFEXITED(status)) {
      assert_int_equal(WEXITSTATUS(status), 0);
      finished++;
    } else {
      killed++;
    }
    if (i % 4 && i < KILLS - 1) continue;
    s = open_at(dir);
    script_apply(script, s, store_applied(s) + 1, ENTRIES);
    store_replay_done(s);
    struct buf got = dump(s);
    assert_true(same_dump(&expected, &got));
    buf_free(&got);
    store_close(s);
    remove_tree(dir); // from nothing again
    assert_int_equal(mkdir(dir, 0700), 0);
  }
  assert_true(killed > 0);
  buf_free(&expected);
  script_free(script);
  remove_tree(dir);
  remove_tree(straight);
}

int main(void) {
  log_set_verbosity(LOG_WARN);
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_kills)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
