// Frames of a write-ahead log written with one call. See wal_vfs.h.
#include "common/store/wal_vfs.h"

#include <sqlite3.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { WAL_HEADER = 32, FRAME_HEADER = 24, MOST_PAGE = 4096 };

struct wal_file {
  sqlite3_file file; // what SQLite sees; must be first
  bool waiting;      // frame[0..FRAME_HEADER) is not written yet
  sqlite3_int64 at;  // its place
  unsigned char frame[FRAME_HEADER + MOST_PAGE];
  sqlite3_file *real; // behind this struct, in the same memory
};

static struct wal_file *wal_of(sqlite3_file *file) {
  return (struct wal_file *)file;
}

static int write_waiting(struct wal_file *w) {
  if (!w->waiting) return SQLITE_OK;
  w->waiting = false;
  return w->real->pMethods->xWrite(w->real, w->frame, FRAME_HEADER, w->at);
}

static int wal_write(sqlite3_file *file, const void *data, int n, sqlite3_int64 at) {
  struct wal_file *w = wal_of(file);
  if (w->waiting && at == w->at + FRAME_HEADER && n <= MOST_PAGE) {
    memcpy(w->frame + FRAME_HEADER, data, (size_t)n);
    w->waiting = false;
    return w->real->pMethods->xWrite(w->real, w->frame, FRAME_HEADER + n, w->at);
  }
  int rc = write_waiting(w);
  if (rc != SQLITE_OK) return rc;
  if (n != FRAME_HEADER || at < WAL_HEADER) return w->real->pMethods->xWrite(w->real, data, n, at);
  memcpy(w->frame, data, FRAME_HEADER);
  w->at = at;
  w->waiting = true;
  return SQLITE_OK;
}

static int wal_read(sqlite3_file *file, void *to, int n, sqlite3_int64 at) {
  struct wal_file *w = wal_of(file);
  int rc = write_waiting(w);
  return rc == SQLITE_OK ? w->real->pMethods->xRead(w->real, to, n, at) : rc;
}

static int wal_close(sqlite3_file *file) {
  struct wal_file *w = wal_of(file);
  int written = write_waiting(w), closed = w->real->pMethods->xClose(w->real);
  return written == SQLITE_OK ? closed : written;
}

static int wal_truncate(sqlite3_file *file, sqlite3_int64 size) {
  struct wal_file *w = wal_of(file);
  int rc = write_waiting(w);
  return rc == SQLITE_OK ? w->real->pMethods->xTruncate(w->real, size) : rc;
}

static int wal_sync(sqlite3_file *file, int flags) {
  struct wal_file *w = wal_of(file);
  int rc = write_waiting(w);
  return rc == SQLITE_OK ? w->real->pMethods->xSync(w->real, flags) : rc;
}

static int wal_size(sqlite3_file *file, sqlite3_int64 *size) {
  struct wal_file *w = wal_of(file);
  int rc = write_waiting(w);
  return rc == SQLITE_OK ? w->real->pMethods->xFileSize(w->real, size) : rc;
}

static int wal_lock(sqlite3_file *file, int level) {
  struct wal_file *w = wal_of(file);
  return w->real->pMethods->xLock(w->real, level);
}

static int wal_unlock(sqlite3_file *file, int level) {
  struct wal_file *w = wal_of(file);
  return w->real->pMethods->xUnlock(w->real, level);
}

static int wal_reserved(sqlite3_file *file, int *out) {
  struct wal_file *w = wal_of(file);
  return w->real->pMethods->xCheckReservedLock(w->real, out);
}

static int wal_control(sqlite3_file *file, int operation, void *arg) {
  struct wal_file *w = wal_of(file);
  int rc = write_waiting(w);
  return rc == SQLITE_OK ? w->real->pMethods->xFileControl(w->real, operation, arg) : rc;
}

static int wal_sector(sqlite3_file *file) {
  struct wal_file *w = wal_of(file);
  return w->real->pMethods->xSectorSize(w->real);
}

static int wal_device(sqlite3_file *file) {
  struct wal_file *w = wal_of(file);
  return w->real->pMethods->xDeviceCharacteristics(w->real);
}

static const sqlite3_io_methods methods = {
    .iVersion = 1, // no shared memory, no mapping: SQLite wants these of the database file only
    .xClose = wal_close,
    .xRead = wal_read,
    .xWrite = wal_write,
    .xTruncate = wal_truncate,
    .xSync = wal_sync,
    .xFileSize = wal_size,
    .xLock = wal_lock,
    .xUnlock = wal_unlock,
    .xCheckReservedLock = wal_reserved,
    .xFileControl = wal_control,
    .xSectorSize = wal_sector,
    .xDeviceCharacteristics = wal_device,
};

// --- the VFS ---

struct wal_vfs {
  sqlite3_vfs vfs; // a copy of `lower` but for what follows; must be first
  sqlite3_vfs *lower;
};

// All files but logs are the lower VFS's own, with its methods.
static int open_file(sqlite3_vfs *vfs, const char *path, sqlite3_file *file, int flags, int *out_flags) {
  sqlite3_vfs *lower = ((struct wal_vfs *)vfs)->lower;
  if (!(flags & SQLITE_OPEN_WAL)) return lower->xOpen(lower, path, file, flags, out_flags);
  struct wal_file *w = wal_of(file);
  *w = (struct wal_file){.real = (sqlite3_file *)(w + 1)};
  w->real->pMethods = NULL;
  int rc = lower->xOpen(lower, path, w->real, flags, out_flags);
  if (w->real->pMethods) w->file.pMethods = &methods; // so that SQLite closes it
  return rc;
}

const char *wal_vfs(void) {
  static const char name[] = "shardlet-wal";
  if (sqlite3_vfs_find(name)) return name;
  sqlite3_vfs *lower = sqlite3_vfs_find(NULL);
  struct wal_vfs *v = malloc(sizeof *v);
  if (!v || !lower) {
    free(v);
    return NULL;
  }
  *v = (struct wal_vfs){.vfs = *lower, .lower = lower};
  v->vfs.zName = name;
  v->vfs.pNext = NULL;
  v->vfs.szOsFile = (int)sizeof(struct wal_file) + lower->szOsFile;
  v->vfs.xOpen = open_file;
  if (sqlite3_vfs_register(&v->vfs, 0) == SQLITE_OK) return name; // SQLite keeps it as long as the process lives
  free(v);
  return NULL;
}
