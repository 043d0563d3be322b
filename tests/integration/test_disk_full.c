// A disk that fills while a member writes, on a small file system of its own: writes are refused with OutOfDiskSpace
// before it is full, reads go on, freed space makes writes work again; a member that is killed meanwhile starts again;
// nothing that was acknowledged is lost. Where mounting is not permitted, the test says so and is skipped.
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/integration/harness.h"

enum { DISK_MIB = 260, BALLAST_MIB = 48, PAD = 100000, MAX_DOCS = 4000, OUT_OF_DISK_SPACE = 14031 };

struct run {
  struct process member;
  char folder[256];
  const char *db;
  int next, acknowledged; // inserts; one after the other, so that all below are there
};

static bool disk_make(struct run *r) {
  char options[40];
  folder_make(r->folder);
  (void)snprintf(options, sizeof options, "size=%dm", DISK_MIB);
  if (mount("shardlet-test", r->folder, "tmpfs", 0, options) == 0) return true;
  print_message("skipped: a file system of its own cannot be mounted here: %s\n", strerror(errno));
  folder_remove(r->folder);
  return false;
}

static void disk_remove(struct run *r) {
  assert_int_equal(umount2(r->folder, MNT_DETACH), 0);
  folder_remove(r->folder);
}

static uint64_t disk_free(const struct run *r) {
  struct statvfs v;
  assert_int_equal(statvfs(r->folder, &v), 0);
  return (uint64_t)v.f_bavail * v.f_frsize;
}

// A file that takes away so much of the disk; 0: all that is free.
static void ballast_add(const struct run *r, const char *name, uint64_t bytes) {
  char path[300];
  (void)snprintf(path, sizeof path, "%s/%s", r->folder, name);
  int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  assert_true(fd >= 0);
  if (!bytes) bytes = disk_free(r);
  assert_int_equal(posix_fallocate(fd, 0, (off_t)bytes), 0);
  (void)close(fd);
}

static void ballast_remove(const struct run *r, const char *name) {
  char path[300];
  (void)snprintf(path, sizeof path, "%s/%s", r->folder, name);
  assert_int_equal(unlink(path), 0);
}

// One document; the error's code, 0 = acknowledged, -1 = the connection broke.
static int insert_one(struct run *r, mongoc_client_t *c) {
  static char pad[PAD];
  memset(pad, 'x', sizeof pad - 1);
  mongoc_collection_t *coll = mongoc_client_get_collection(c, r->db, "kept");
  bson_t *doc = BCON_NEW("_id", BCON_INT32(r->next), "pad", BCON_UTF8(pad));
  bson_error_t why = {0};
  bool ok = mongoc_collection_insert_one(coll, doc, NULL, NULL, &why);
  bson_destroy(doc);
  mongoc_collection_destroy(coll);
  if (ok) r->acknowledged = ++r->next;
  return ok ? 0 : why.domain == MONGOC_ERROR_SERVER || why.domain == MONGOC_ERROR_COMMAND ? (int)why.code : -1;
}

static void check_all(struct run *r, mongoc_client_t *c) {
  int64_t n = count_documents(c, r->db, "kept", "{}");
  assert_true(n >= r->acknowledged && n <= r->next + 1);
  assert_int_equal(count_documents(c, r->db, "kept", "{\"_id\": 0}"), 1);
}

static void restart(struct run *r, mongoc_client_t **c) {
  mongoc_client_destroy(*c);
  process_start(&r->member);
  *c = client_of(&r->member);
  check_all(r, *c);
}

static void fill(struct run *r, mongoc_client_t *c) {
  int code = 0;
  while (code == 0 && r->next < MAX_DOCS) code = insert_one(r, c);
  assert_int_equal(code, OUT_OF_DISK_SPACE);
  assert_true(disk_free(r) > 0);
}

// No byte is left: the member lives on as a reader, or ends with its line when it had something to write.
static void fill_to_the_last_byte(struct run *r, mongoc_client_t **c) {
  ballast_add(r, "all", 0);
  wait_ms(1500); // commits that are due
  if (process_runs(&r->member)) {
    check_all(r, *c);
    assert_int_equal(insert_one(r, *c), OUT_OF_DISK_SPACE);
    (void)process_end(&r->member, SIGKILL);
  }
  ballast_remove(r, "all");
  restart(r, c);
}

static void a_disk_fills(const char *program, const char *db) {
  struct run r = {.db = db};
  if (!disk_make(&r)) skip();
  ballast_add(&r, "ballast", (uint64_t)BALLAST_MIB << 20);
  member_start(&r.member, r.folder, program, "rs", "");
  mongoc_client_t *c = client_of(&r.member);
  fill(&r, c);
  check_all(&r, c);
  (void)process_end(&r.member, SIGKILL);
  restart(&r, &c); // while it is as full as that
  fill_to_the_last_byte(&r, &c);
  int before = r.acknowledged;
  ballast_remove(&r, "ballast");
  for (int64_t end = now_ms() + 30000; insert_one(&r, c) != 0;) { // it looks at the disk now and then
    assert_true(now_ms() < end);
    wait_ms(100);
  }
  check_all(&r, c);
  print_message("%s: %d documents of %d bytes until the disk was full, then %d more\n", program, before, PAD,
                r.acknowledged - before);
  mongoc_client_destroy(c);
  assert_int_equal(process_end(&r.member, SIGTERM), 0);
  disk_remove(&r);
}

static void a_shards_disk_fills(void **state) {
  a_disk_fills("shardd", "test");
}

static void a_config_servers_disk_fills(void **state) {
  a_disk_fills("configsvr", "config");
}

int main(void) {
  mongoc_init();
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_shards_disk_fills),
      cmocka_unit_test(a_config_servers_disk_fills),
  };
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  mongoc_cleanup();
  return failed;
}
