// A disk that a test looks at and breaks: a SQLite VFS over the default one, and the three system calls with which the
// program itself changes its data directory.
//
// Everything that is written goes to the real file and is noted in a trace, in the order in which it happened, shared
// with the process that started this one. power_cut.h makes of a trace what a machine that loses its power would find.
// Any write (or sync) may be told to fail, and all that follow with it.
#ifndef SHARDLET_TEST_FAULTY_DISK_H
#define SHARDLET_TEST_FAULTY_DISK_H

#include <fcntl.h>
#include <pthread.h>
#include <sqlite3.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum disk_event_kind {
  DISK_CREATE, // name, inode
  DISK_WRITE,  // inode, offset, data
  DISK_TRUNCATE,
  DISK_SYNC,   // inode: a file's or a directory's
  DISK_REMOVE, // name
  DISK_MKDIR,  // name, inode
  DISK_MARK,   // offset: a number of the test
};

struct disk_event { // followed by `len` bytes: data, or the path with its zero
  enum disk_event_kind kind;
  uint32_t len;
  uint64_t inode, offset;
};

enum { TRACE_BYTES = 512 << 20 }; // of address space

struct disk { // shared between a test and the process it watches
  size_t used;
  int64_t writes;    // writes and syncs so far
  int64_t fail_from; // the first of them that fails; 0 = none
  int fail_code;     // SQLITE_FULL, SQLITE_IOERR_WRITE ...
  _Alignas(struct disk_event) uint8_t trace[TRACE_BYTES];
};

static struct disk *disk; // NULL: nobody watches
static pthread_mutex_t disk_lock = PTHREAD_MUTEX_INITIALIZER;

static struct disk *disk_new(void) {
  void *memory =
      mmap(NULL, sizeof(struct disk), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return memory == MAP_FAILED ? NULL : memory;
}

static void disk_reset(struct disk *d) {
  (void)madvise(d->trace, d->used, MADV_REMOVE);
  d->used = 0;
  d->writes = d->fail_from = 0;
}

static void disk_note(enum disk_event_kind kind, uint64_t inode, uint64_t offset, const void *data, size_t len) {
  struct disk_event e = {kind, (uint32_t)len, inode, offset};
  size_t room = (len + 7) & ~(size_t)7;
  if (!disk) return;
  if (disk->used + sizeof e + room > TRACE_BYTES) abort();
  memcpy(disk->trace + disk->used, &e, sizeof e);
  if (len) memcpy(disk->trace + disk->used + sizeof e, data, len);
  disk->used += sizeof e + room;
}

__attribute__((unused)) static void disk_mark(uint64_t number) {
  (void)pthread_mutex_lock(&disk_lock);
  disk_note(DISK_MARK, 0, number, NULL, 0);
  (void)pthread_mutex_unlock(&disk_lock);
}

// Whether this write or sync is to fail.
static bool disk_fails(void) {
  if (!disk) return false;
  disk->writes++;
  return disk->fail_from && disk->writes >= disk->fail_from;
}

// --- system calls of the program itself (and of SQLite's own VFS) ---

static int sync_and_note(int fd, long call) {
  (void)pthread_mutex_lock(&disk_lock);
  int rc = (int)syscall(call, fd);
  struct stat st;
  if (rc == 0 && fstat(fd, &st) == 0) disk_note(DISK_SYNC, st.st_ino, 0, NULL, 0);
  (void)pthread_mutex_unlock(&disk_lock);
  return rc;
}

int fsync(int fd) {
  return sync_and_note(fd, SYS_fsync);
}

int fdatasync(int fd) {
  return sync_and_note(fd, SYS_fdatasync);
}

int unlink(const char *path) {
  (void)pthread_mutex_lock(&disk_lock);
  int rc = (int)syscall(SYS_unlinkat, AT_FDCWD, path, 0);
  if (rc == 0) disk_note(DISK_REMOVE, 0, 0, path, strlen(path) + 1);
  (void)pthread_mutex_unlock(&disk_lock);
  return rc;
}

int rmdir(const char *path) {
  (void)pthread_mutex_lock(&disk_lock);
  int rc = (int)syscall(SYS_unlinkat, AT_FDCWD, path, AT_REMOVEDIR);
  if (rc == 0) disk_note(DISK_REMOVE, 0, 0, path, strlen(path) + 1);
  (void)pthread_mutex_unlock(&disk_lock);
  return rc;
}

int mkdir(const char *path, mode_t mode) {
  (void)pthread_mutex_lock(&disk_lock);
  int rc = (int)syscall(SYS_mkdirat, AT_FDCWD, path, mode);
  struct stat st;
  if (rc == 0 && stat(path, &st) == 0) disk_note(DISK_MKDIR, st.st_ino, 0, path, strlen(path) + 1);
  (void)pthread_mutex_unlock(&disk_lock);
  return rc;
}

// --- the VFS ---

struct disk_file {
  sqlite3_file base; // first
  sqlite3_file *real;
  uint64_t inode;
};

static sqlite3_vfs *real_vfs;

static sqlite3_file *real_of(sqlite3_file *f) {
  return ((struct disk_file *)f)->real;
}

static int disk_close(sqlite3_file *f) {
  return real_of(f)->pMethods->xClose(real_of(f));
}

static int disk_read(sqlite3_file *f, void *to, int n, sqlite3_int64 at) {
  return real_of(f)->pMethods->xRead(real_of(f), to, n, at);
}

static int disk_write(sqlite3_file *f, const void *from, int n, sqlite3_int64 at) {
  (void)pthread_mutex_lock(&disk_lock);
  int rc = disk_fails() ? disk->fail_code : real_of(f)->pMethods->xWrite(real_of(f), from, n, at);
  if (rc == SQLITE_OK) disk_note(DISK_WRITE, ((struct disk_file *)f)->inode, (uint64_t)at, from, (size_t)n);
  (void)pthread_mutex_unlock(&disk_lock);
  return rc;
}

static int disk_truncate(sqlite3_file *f, sqlite3_int64 size) {
  (void)pthread_mutex_lock(&disk_lock);
  int rc = real_of(f)->pMethods->xTruncate(real_of(f), size);
  if (rc == SQLITE_OK) disk_note(DISK_TRUNCATE, ((struct disk_file *)f)->inode, (uint64_t)size, NULL, 0);
  (void)pthread_mutex_unlock(&disk_lock);
  return rc;
}

static int disk_sync(sqlite3_file *f, int flags) {
  (void)pthread_mutex_lock(&disk_lock);
  bool fails = disk_fails();
  (void)pthread_mutex_unlock(&disk_lock);
  return fails ? SQLITE_IOERR_FSYNC : real_of(f)->pMethods->xSync(real_of(f), flags);
}

static int disk_size(sqlite3_file *f, sqlite3_int64 *size) {
  return real_of(f)->pMethods->xFileSize(real_of(f), size);
}

static int disk_lock_file(sqlite3_file *f, int level) {
  return real_of(f)->pMethods->xLock(real_of(f), level);
}

static int disk_unlock_file(sqlite3_file *f, int level) {
  return real_of(f)->pMethods->xUnlock(real_of(f), level);
}

static int disk_check_lock(sqlite3_file *f, int *out) {
  return real_of(f)->pMethods->xCheckReservedLock(real_of(f), out);
}

static int disk_control(sqlite3_file *f, int op, void *arg) {
  return real_of(f)->pMethods->xFileControl(real_of(f), op, arg);
}

static int disk_sector(sqlite3_file *f) {
  return real_of(f)->pMethods->xSectorSize(real_of(f));
}

static int disk_traits(sqlite3_file *f) {
  return real_of(f)->pMethods->xDeviceCharacteristics(real_of(f));
}

static int disk_shm_map(sqlite3_file *f, int page, int size, int extend, void volatile **out) {
  return real_of(f)->pMethods->xShmMap(real_of(f), page, size, extend, out);
}

static int disk_shm_lock(sqlite3_file *f, int offset, int n, int flags) {
  return real_of(f)->pMethods->xShmLock(real_of(f), offset, n, flags);
}

static void disk_shm_barrier(sqlite3_file *f) {
  real_of(f)->pMethods->xShmBarrier(real_of(f));
}

static int disk_shm_unmap(sqlite3_file *f, int delete) {
  return real_of(f)->pMethods->xShmUnmap(real_of(f), delete);
}

static const sqlite3_io_methods disk_methods = {
    .iVersion = 2, // no memory mapping: nothing is written unseen
    .xClose = disk_close,
    .xRead = disk_read,
    .xWrite = disk_write,
    .xTruncate = disk_truncate,
    .xSync = disk_sync,
    .xFileSize = disk_size,
    .xLock = disk_lock_file,
    .xUnlock = disk_unlock_file,
    .xCheckReservedLock = disk_check_lock,
    .xFileControl = disk_control,
    .xSectorSize = disk_sector,
    .xDeviceCharacteristics = disk_traits,
    .xShmMap = disk_shm_map,
    .xShmLock = disk_shm_lock,
    .xShmBarrier = disk_shm_barrier,
    .xShmUnmap = disk_shm_unmap,
};

static int disk_open(sqlite3_vfs *vfs, const char *path, sqlite3_file *file, int flags, int *out_flags) {
  struct disk_file *f = (struct disk_file *)file;
  f->base.pMethods = NULL;
  f->real = (sqlite3_file *)(f + 1);
  bool there = path && access(path, F_OK) == 0;
  // Without disk_lock: SQLite takes a mutex of its own here, and holds that one when it calls unlink().
  int rc = real_vfs->xOpen(real_vfs, path, f->real, flags, out_flags);
  struct stat st;
  if (rc == SQLITE_OK && path && stat(path, &st) == 0) {
    f->inode = st.st_ino;
    (void)pthread_mutex_lock(&disk_lock);
    if (!there) disk_note(DISK_CREATE, f->inode, 0, path, strlen(path) + 1);
    (void)pthread_mutex_unlock(&disk_lock);
  }
  if (rc == SQLITE_OK) f->base.pMethods = &disk_methods;
  return rc;
}

// Every database is opened through it from now on. To be called before the first is: wal_vfs() stands on what is the
// default then.
static bool disk_install(void) {
  static sqlite3_vfs vfs;
  real_vfs = sqlite3_vfs_find(NULL);
  if (!real_vfs) return false;
  vfs = *real_vfs;
  vfs.zName = "faulty";
  vfs.szOsFile = (int)sizeof(struct disk_file) + real_vfs->szOsFile;
  vfs.xOpen = disk_open;
  return sqlite3_vfs_register(&vfs, 1) == SQLITE_OK;
}

#endif
