// Data directories that cannot be used: each is refused with one line that names the path and what to do.
#include <fcntl.h>
#include <sys/wait.h>

#include "common/base/log.h"
#include "tests/unit/common/store/fixture.h"

static char dir[40];
static char text[1100];

static bool opens(const char *path, const char *role) {
  struct error err = {0};
  struct store *s = store_open(&(struct store_options){.dbpath = path, .role = role}, &err);
  strcpy(text, err.message);
  if (!s) {
    assert_int_not_equal(err.code, 0);
    assert_null(strchr(text, '\n'));
    assert_non_null(strstr(text, path));
  }
  store_close(s);
  return s != NULL;
}

static void says(const char *part) {
  if (!strstr(text, part)) print_error("'%s' does not say '%s'\n", text, part);
  assert_non_null(strstr(text, part));
}

static int make(void **state) {
  strcpy(dir, "/tmp/store-bad-XXXXXX");
  return mkdtemp(dir) ? 0 : 1;
}

static int destroy(void **state) {
  (void)chmod(dir, 0700);
  remove_tree(dir);
  return 0;
}

static void path_in(char out[256], const char *name) {
  (void)snprintf(out, 256, "%s/%s", dir, name);
}

static void overwrite(const char *name, off_t at, const char *bytes, size_t n) {
  char path[256];
  path_in(path, name);
  int fd = open(path, O_WRONLY | O_CREAT, 0600);
  assert_true(fd >= 0);
  assert_int_equal(pwrite(fd, bytes, n, at), n);
  (void)close(fd);
}

// A directory with a collection of one file, orderly closed.
static void fill(void) {
  struct store *s = open_at(dir);
  store_replay_done(s);
  struct arena *a = arena_new();
  struct fixture *f = arena_zalloc(a, sizeof *f);
  f->a = a;
  f->s = s;
  f->list = arena_alloc(a, sizeof *f->list);
  changes_init(f->list);
  create(f, UUID_A, "db.a", 1, "{}", "[]");
  put(f, UUID_A, 1, 1, "{\"_id\": 1}");
  changes_cleanup(f->list);
  store_close(s);
  arena_free(a);
}

static void file_name(char out[80], const char *name) {
  char uuid[37];
  uuid_text(UUID_A, uuid);
  (void)snprintf(out, 80, "%s/%s", uuid, name);
}

static void test_not_there(void **state) {
  assert_false(opens("/tmp/no/such/directory", "shardd"));
  says("cannot be found");
  says("--dbpath");
  char path[256];
  path_in(path, "file");
  overwrite("file", 0, "x", 1);
  assert_false(opens(path, "shardd"));
  says("not a directory");
}

static void test_not_writable(void **state) {
  assert_int_equal(chmod(dir, 0500), 0);
  pid_t pid = fork(); // root may write anywhere, so that a child becomes somebody else
  if (pid == 0) {
    if (geteuid() == 0 && (setgid(65534) != 0 || setuid(65534) != 0)) _exit(1);
    struct error err = {0};
    bool refused = !store_open(&(struct store_options){.dbpath = dir, .role = "shardd"}, &err);
    char uid[24];
    (void)snprintf(uid, sizeof uid, "user %ld", (long)geteuid());
    _exit(refused && strstr(err.message, uid) && strstr(err.message, dir) ? 0 : 1);
  }
  int status;
  assert_int_equal(waitpid(pid, &status, 0), pid);
  assert_int_equal(status, 0);
}

static void test_locked(void **state) {
  struct store *s = open_at(dir);
  pid_t pid = fork();
  if (pid == 0) {
    struct error err = {0};
    struct store *second = store_open(&(struct store_options){.dbpath = dir, .role = "shardd"}, &err);
    char holder[40];
    (void)snprintf(holder, sizeof holder, "pid %ld", (long)getppid());
    _exit(!second && strstr(err.message, "in use by another process") && strstr(err.message, holder) ? 0 : 1);
  }
  int status;
  assert_int_equal(waitpid(pid, &status, 0), pid);
  assert_int_equal(status, 0);
  store_close(s);
  assert_true(opens(dir, "shardd"));
}

static void test_another_role(void **state) {
  assert_true(opens(dir, "shardd"));
  assert_false(opens(dir, "configsvr"));
  says("belongs to a shardd");
  assert_true(opens(dir, "shardd"));
}

static void test_newer_format(void **state) {
  assert_true(opens(dir, "shardd"));
  char path[256];
  path_in(path, "catalog.sqlite");
  sqlite3 *sql;
  assert_int_equal(sqlite3_open(path, &sql), SQLITE_OK);
  assert_int_equal(sqlite3_exec(sql, "UPDATE meta SET value = 99 WHERE name = 'format'", NULL, NULL, NULL), SQLITE_OK);
  sqlite3_close(sql);
  assert_false(opens(dir, "shardd"));
  says("format 99");
}

static void test_damaged_catalog(void **state) {
  fill();
  overwrite("catalog.sqlite", 0, "this is not a database", 22);
  assert_false(opens(dir, "shardd"));
  says("catalog.sqlite");
  says("damaged");
}

static void test_missing_catalog(void **state) {
  fill();
  char path[256];
  path_in(path, "catalog.sqlite");
  assert_int_equal(unlink(path), 0);
  assert_false(opens(dir, "shardd"));
  says("catalog is missing");
  path_in(path, "catalog.sqlite");
  assert_int_not_equal(access(path, F_OK), 0); // nothing was made in its place
}

static void test_damaged_rows(void **state) {
  fill();
  char path[256];
  path_in(path, "catalog.sqlite");
  sqlite3 *sql;
  assert_int_equal(sqlite3_open(path, &sql), SQLITE_OK);
  assert_int_equal(sqlite3_exec(sql, "UPDATE files SET definitions = x'00'", NULL, NULL, NULL), SQLITE_OK);
  sqlite3_close(sql);
  assert_false(opens(dir, "shardd"));
  says("damaged");
}

static void test_missing_file(void **state) {
  fill();
  char name[80], path[256];
  file_name(name, "1.sqlite");
  path_in(path, name);
  assert_int_equal(unlink(path), 0);
  assert_false(opens(dir, "shardd"));
  says("missing or empty");
}

static void test_damaged_file(void **state) {
  fill();
  char name[80];
  file_name(name, "1.sqlite");
  overwrite(name, 0, "this is not a database", 22);
  assert_false(opens(dir, "shardd"));
  says("1.sqlite");
  says("damaged");
}

static void test_missing_internal(void **state) {
  fill();
  char path[256];
  path_in(path, "internal.sqlite");
  assert_int_equal(unlink(path), 0);
  assert_false(opens(dir, "shardd"));
  says("internal.sqlite");
}

// What a crash in the middle of the very first start leaves is no damage.
static void test_first_start_interrupted(void **state) {
  overwrite("catalog.sqlite", 0, "", 0);
  assert_true(opens(dir, "shardd"));
  assert_true(opens(dir, "shardd"));
}

// Files of others are left alone.
static void test_foreign_files_stay(void **state) {
  overwrite("raft.sqlite", 0, "mine", 4);
  char path[256];
  path_in(path, "0a0a0a0a-0a0a-0a0a-0a0a-0a0a0a0a0a0a");
  assert_true(opens(dir, "shardd"));
  assert_int_equal(mkdir(path, 0700), 0);
  overwrite("0a0a0a0a-0a0a-0a0a-0a0a-0a0a0a0a0a0a/7.sqlite", 0, "x", 1);
  overwrite("0a0a0a0a-0a0a-0a0a-0a0a-0a0a0a0a0a0a/notes.txt", 0, "x", 1);
  struct store *s = open_at(dir);
  store_replay_done(s);
  store_close(s);
  path_in(path, "0a0a0a0a-0a0a-0a0a-0a0a-0a0a0a0a0a0a/7.sqlite");
  assert_int_not_equal(access(path, F_OK), 0);
  path_in(path, "0a0a0a0a-0a0a-0a0a-0a0a-0a0a0a0a0a0a/notes.txt");
  assert_int_equal(access(path, F_OK), 0);
  path_in(path, "raft.sqlite");
  assert_int_equal(access(path, F_OK), 0);
}

int main(void) {
  log_set_verbosity(LOG_WARN);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_not_there, make, destroy),
      cmocka_unit_test_setup_teardown(test_not_writable, make, destroy),
      cmocka_unit_test_setup_teardown(test_locked, make, destroy),
      cmocka_unit_test_setup_teardown(test_another_role, make, destroy),
      cmocka_unit_test_setup_teardown(test_newer_format, make, destroy),
      cmocka_unit_test_setup_teardown(test_damaged_catalog, make, destroy),
      cmocka_unit_test_setup_teardown(test_missing_catalog, make, destroy),
      cmocka_unit_test_setup_teardown(test_damaged_rows, make, destroy),
      cmocka_unit_test_setup_teardown(test_missing_file, make, destroy),
      cmocka_unit_test_setup_teardown(test_damaged_file, make, destroy),
      cmocka_unit_test_setup_teardown(test_missing_internal, make, destroy),
      cmocka_unit_test_setup_teardown(test_first_start_interrupted, make, destroy),
      cmocka_unit_test_setup_teardown(test_foreign_files_stay, make, destroy),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
