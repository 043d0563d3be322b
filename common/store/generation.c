// The generations of a data directory: making one, ending it, removing what does not count any more.
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/store/copy.h"
#include "common/store/internal.h"

static const char prefix[] = "generation-", copying[] = "copying-";
enum { OPEN_DIRECTORIES = 8 };

char *store_generation_path(const char *dbpath, uint64_t generation) {
  char *path = NULL;
  int n = generation ? asprintf(&path, "%s/%s%llu", dbpath, prefix, (unsigned long long)generation)
                     : asprintf(&path, "%s", dbpath);
  if (n < 0) abort();
  return path;
}

static char *join(const char *directory, const char *name) {
  char *path = NULL;
  if (asprintf(&path, "%s/%s", directory, name) < 0) abort();
  return path;
}

// --- removing ---

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *place) {
  (void)remove(path);
  return 0;
}

static void remove_tree(const char *path) {
  (void)nftw(path, remove_one, OPEN_DIRECTORIES, FTW_DEPTH | FTW_PHYS);
}

static bool is_of_first(const char *name) {
  static const char *const databases[] = {"catalog.sqlite", "internal.sqlite"};
  for (size_t i = 0; i < sizeof databases / sizeof *databases; i++)
    if (!strncmp(name, databases[i], strlen(databases[i]))) return true;
  return store_is_directory(name);
}

static bool counts(const char *name, uint64_t generation) {
  if (!strncmp(name, copying, sizeof copying - 1)) return false;
  if (!strncmp(name, prefix, sizeof prefix - 1)) return strtoull(name + sizeof prefix - 1, NULL, 10) == generation;
  return !generation || !is_of_first(name);
}

void store_generation_keep(const char *dbpath, uint64_t generation) {
  DIR *dir = opendir(dbpath);
  if (!dir) return;
  for (struct dirent *e = readdir(dir); e; e = readdir(dir)) {
    if (e->d_name[0] == '.' || counts(e->d_name, generation)) continue;
    char *path = join(dbpath, e->d_name);
    remove_tree(path);
    free(path);
  }
  (void)closedir(dir);
}

// --- making ---

bool store_generation_begin(const char *dbpath, uint64_t generation, struct error *err) {
  char *path = store_generation_path(dbpath, generation);
  remove_tree(path);
  bool ok = make_directory(path, err);
  free(path);
  return ok;
}

bool store_generation_admit(const char *dbpath, uint64_t generation, const char *name, struct error *err) {
  if (!strcmp(name, "catalog.sqlite") || !strcmp(name, "internal.sqlite")) return true;
  const char *slash = strchr(name, '/');
  char directory[40] = "";
  if (slash && (size_t)(slash - name) < sizeof directory) memcpy(directory, name, (size_t)(slash - name));
  if (!store_is_directory(directory) || !store_is_file(slash + 1))
    return error_set(err, ERR_BadValue, "%.80s is no file of a data directory", name);
  char *root = store_generation_path(dbpath, generation), *path = join(root, directory);
  bool ok = make_directory(path, err);
  free(path);
  free(root);
  return ok;
}

// --- ending ---

static bool set_snapshot(const char *path, uint64_t snapshot, struct error *err) {
  sqlite3 *sql = NULL;
  char text[160];
  // What the other member keeps about itself does not concern this one.
  (void)snprintf(text, sizeof text,
                 "BEGIN; INSERT OR REPLACE INTO meta VALUES ('snapshot', %llu); DELETE FROM local; COMMIT",
                 (unsigned long long)snapshot);
  int rc = sqlite3_open_v2(path, &sql, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, NULL);
  if (rc == SQLITE_OK) rc = sqlite3_exec(sql, text, NULL, NULL, NULL);
  if (rc != SQLITE_OK) error_set(err, ERR_OperationFailed, "%s: %s", path, sql ? sqlite3_errmsg(sql) : "no memory");
  sqlite3_close_v2(sql); // copies the WAL into the file
  return rc == SQLITE_OK;
}

static int sync_one(const char *path, const struct stat *st, int type, struct FTW *place) {
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  int rc = fd >= 0 ? fsync(fd) : -1;
  if (fd >= 0) (void)close(fd);
  return rc;
}

bool store_generation_finish(const char *dbpath, uint64_t generation, uint64_t snapshot, struct error *err) {
  char *root = store_generation_path(dbpath, generation), *catalog = join(root, "catalog.sqlite");
  struct stat none = {0};
  struct FTW nowhere = {0};
  bool ok = set_snapshot(catalog, snapshot, err);
  if (ok && (nftw(root, sync_one, OPEN_DIRECTORIES, FTW_DEPTH | FTW_PHYS) != 0 ||
             sync_one(dbpath, &none, FTW_D, &nowhere) != 0))
    ok = error_set(err, ERR_OperationFailed, "%s cannot be made durable: %s", root, strerror(errno));
  free(catalog);
  free(root);
  return ok;
}
