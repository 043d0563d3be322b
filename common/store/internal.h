// The store from inside: what its source files share.
//
//   db          one SQLite file                 table      a set of documents and indexes in one
//   ids         _id -> place                    file       a file of a collection: its table, and its database unless
//   shared catalog     what is written of collections  collection what is in memory of them, and what readers see
//   (generations) apply       entries                         sessions   retryable-write records scan, find  reading
//   maintenance commits, checkpoints, snapshots, removal of files
#ifndef SHARDLET_STORE_INTERNAL_H
#define SHARDLET_STORE_INTERNAL_H

#include "common/base/map.h"
#include "common/net/operation.h"
#include "common/store/change.h"
#include "common/store/ids.h"
#include "common/store/scan.h"
#include "common/store/store.h"
#include "common/store/table.h"

struct collection_core;
struct sessions;
struct purge;

struct store_file {   // lives while the catalog knows the file or a scan has it
  struct table table; // .db: own_db, or the store's internal one
  struct db own_db;
  struct store *store;
  struct collection_core *core;
  enum file_state state;
  uint64_t created;         // the entry that made it
  size_t refs;              // generations, scans, and one while the catalog knows it or it waits for removal
  size_t scans;             // open ones that read it: its connection stays until they end
  bool forgotten;           // by the catalog
  bool kept_open;           // forgotten, but scans go on reading it
  struct store_file *heir;  // forgotten by a merge: the file that has its documents now (referenced)
  struct range_file *shown; // in the collection's newest generation, where the counters are shown
};

struct index_definition {
  uint32_t id;
  bson_t *spec;
  bool ready;
};

struct owned_interval { // from min to the next one's
  uint8_t *min;
  size_t min_len;
  uint32_t file;
};

struct intervals {
  struct owned_interval *list; // sorted; the first has min_len 0
  size_t n;
};

struct generation {        // what readers see: an immutable copy of a core's state
  struct collection shown; // first, so that one is the other
  struct arena *arena;
  struct collection_core *core;
  size_t refs;
  struct generation *next, *prev; // those of the core that somebody holds
};

struct collection_core { // one collection as it is now
  struct store *store;
  uint8_t uuid[16];
  char *ns;
  bson_t *options, *shard_key;
  bool internal;
  bool new_files;                   // made since the directory was last fsynced
  struct index_definition *indexes; // by id; [0] is _id; none for a view
  size_t n_indexes;
  struct store_file **files; // by id
  size_t n_files;
  struct intervals intervals;
  struct ids *ids;     // NULL while no file needs it
  uint64_t ids_since;  // the entry from which on it has rows
  uint32_t next_index; // above every index id that was ever used
  // Counters that run ahead on a primary; 0 = to be taken from the applied state.
  int64_t rid_counter;
  uint32_t index_counter;
  struct slice_result slice;
  struct arena *slice_arena; // of slice.duplicate_id
  bool has_slice;
  struct generation *newest, *generations;
  bool stale; // to be shown anew at the end of the entry
  struct collection_core *next_stale;
  size_t refs; // generations, and one while the catalog knows it
};

struct removal { // files to unlink once the catalog that forgot them is durable
  struct removal *next;
  uint64_t entry;          // that forgot it
  struct store_file *file; // or NULL:
  struct ids *ids;         // or NULL:
  char *directory;         // of a dropped collection, when empty
};

struct store {
  char *base, *dbpath; // the data directory; the generation in it that counts (copy.h)
  char *role;
  int lock_fd;
  struct db_limits limits;
  struct db catalog, internal;
  struct db *all;             // every database, open or not
  struct db *newest, *oldest; // open range and ids files, by last use
  size_t n_open, max_open, cache_bytes;
  size_t n_kept;                       // forgotten files whose connections stay for their scans
  struct map *by_ns, *by_uuid, *files; // collection_core, collection_core, file_handle
  struct store_file *last_file;        // the last one an entry named
  struct scan *active;                 // scans with statements that are not saved
  struct sessions *sessions;
  uint64_t applied, replay_target;
  uint64_t snapshot; // all of this and before is durable
  bool replayed;
  bool holds; // the last pass of a checkpoint
  uint64_t generation;
  uint32_t next_file, file_counter; // as applied; running ahead (0 = to be taken from it)
  // The entry that is being applied.
  uint64_t entry;
  int64_t entry_wall;
  bool last_change; // the change being applied is its last
  struct db **touched;
  size_t n_touched, touched_cap;
  struct collection_core *stale;
  struct arena *arena; // for one change
  // Maintenance.
  struct mutex maintenance; // one of store_tick() and store_snapshot() at a time
  struct removal *removals, **removals_end;
  int64_t cache_tuned_ms;
  uint64_t copies;     // temporary files made
  bool stale_ids;      // the catalog has rows of them
  struct purge *purge; // the pass that is on its way
};

// --- the store itself (store.c) ---
struct store *store_alloc(const char *base, uint64_t generation, const char *role); // not loaded
void store_place(struct store *s, uint64_t generation);                             // its paths
bool store_load(struct store *s, struct error *err);
void store_free(struct store *s); // databases that are still open are closed as they are

// --- open databases (open_files.c) ---
void store_add_db(struct store *s, struct db *d);
void store_remove_db(struct store *s, struct db *d);
void store_opened(struct store *s, struct db *d); // enters it among the open ones; may close others
void store_closed(struct store *s, struct db *d);
void store_used(struct store *s, struct db *d);
void store_trim_open(struct store *s);
void store_tune_caches(struct store *s);

// --- files (file.c) ---
struct store_file *file_find(struct store *s, uint32_t id);
struct store_file *file_new(struct collection_core *c, uint32_t id, enum file_state state, uint64_t created);
// At start: reads what the file has. A file that is not there, or not usable, but newer than the last snapshot will be
// made again from the log.
bool file_load(struct store_file *f, const bson_t *definitions, struct error *err);
// Opens its database for reading, in a transaction. false: there is nothing to read.
bool file_read(struct store_file *f);
// For the entry being applied: whether the file needs it. Then it is open (made, if necessary) and in a write
// transaction.
bool file_touch(struct store_file *f);
struct store_file *file_ref(struct store_file *f);
void file_unref(struct store_file *f);
void file_scan_ends(struct store_file *f);                       // one of f->scans, which the caller counted
void file_forget(struct store_file *f, bool dropped);            // the catalog does, with the whole collection or alone
void file_merged(struct store_file *f, struct store_file *heir); // the same, when its documents went to another file
// Where the documents of a file are now: itself, or what it was merged into.
struct store_file *file_now(struct store_file *f);
void file_destroy(struct store_file *f);
char *file_path(const struct store *s, const uint8_t uuid[16], const char *name); // malloc'd
bool ids_read(struct collection_core *c);
bool ids_touch(struct collection_core *c);
bool ids_load(struct collection_core *c, struct error *err);
void ids_forget(struct collection_core *c);
bool make_directory(const char *path, struct error *err);

// --- applying (apply.c) ---
bool store_touch(struct store *s,
                 struct db *d); // whether the open database needs the entry; then in a write transaction
// The database needs nothing more of this entry: if the change being applied is the last one, it need not stay open for
// the rest.
void store_end_file(struct store *s, struct db *d);
void core_mark_stale(struct collection_core *c);

// --- collections in memory (collection.c) ---
struct collection_core *core_new(struct store *s, const uint8_t uuid[16], const char *ns, const bson_t *options,
                                 const bson_t *shard_key);
void core_free(struct collection_core *c); // forgets it: readers keep their generations
void core_unref(struct collection_core *c);
void core_show(struct collection_core *c); // makes a new generation
void core_set_dropped(struct collection_core *c);
struct collection_core *core_of(const struct collection *c);
struct index_definition *core_index(const struct collection_core *c, uint32_t id);
void core_add_index(struct collection_core *c, uint32_t id, const bson_t *spec, bool ready);
void core_remove_index(struct collection_core *c, uint32_t id);
void core_add_file(struct collection_core *c, struct store_file *f);
void core_remove_file(struct collection_core *c, struct store_file *f);
struct store_file *core_file(const struct collection_core *c, uint32_t id);
struct store_file *core_lowest_active(const struct collection_core *c);
bool ns_is_internal(const char *ns);
void core_show_counters(struct store_file *f);

// --- intervals (intervals.c): always sorted and covering ---
void intervals_init(struct intervals *v, uint32_t file); // one for everything
void intervals_append(struct intervals *v, struct key min, uint32_t file);
void intervals_set(struct intervals *v, struct key min, struct key max,
                   uint32_t file); // cuts what is there; len 0 = without bound
void intervals_replace(struct intervals *v, uint32_t file, uint32_t by);
uint32_t intervals_find(const struct intervals *v, struct key k);
void intervals_free(struct intervals *v);

// --- what is written of them (catalog.c): in a write transaction of the catalog ---
bool catalog_open(struct store *s, bool fresh, struct error *err);
bool catalog_load(struct store *s, struct error *err);
void catalog_put_collection(const struct collection_core *c);
void catalog_remove_collection(const struct collection_core *c);
void catalog_put_index(const struct collection_core *c, const struct index_definition *i);
void catalog_remove_index(const struct collection_core *c, uint32_t id);
void catalog_put_file(const struct store_file *f, const bson_t *definitions, struct key min, struct key max);
void catalog_set_file_active(const struct store_file *f);
void catalog_remove_file(const struct store_file *f);
void catalog_put_intervals(const struct collection_core *c);
void catalog_put_next_file(struct store *s);
void catalog_add_stale_ids(const struct collection_core *c,
                           uint32_t file); // rows of the ids file that name it are to be purged
const bson_t *catalog_file_definitions(struct store *s, uint32_t id, struct arena *a);

// --- catalog changes of an entry (catalog_changes.c) ---
bool apply_catalog_change(struct store *s, const struct change *c); // false: not of this kind

// --- sessions (sessions.c) ---
struct sessions *sessions_load(struct store *s);
void sessions_free(struct sessions *t);
void sessions_finalize(struct sessions *t);
void sessions_apply(struct store *s, const struct change *c);

// --- stale rows of ids files (ids_purge.c) ---
void ids_purge_free(struct purge *p);
void ids_purge(struct store *s); // a slice of the work there is; only after replay

// --- scans ---
void scans_save_all(struct store *s);

// --- removal of files (removal.c) ---
// Takes over what the catalog has forgotten in this entry: a file, an ids file, or a directory (malloc'd path).
void removal_add(struct store *s, struct store_file *f, struct ids *i, char *directory);
// Those that were forgotten up to this entry, which the catalog has durably. The list is the caller's: unlinking it
// needs nothing of the store.
struct removal *removal_take(struct store *s, uint64_t durable);
void removal_unlink(const struct removal *list);
void unlink_database(const char *path); // and what SQLite has beside it
void removal_free(struct removal *list);
bool directory_has_data(const char *dbpath);
bool store_is_directory(const char *name); // of a collection
bool store_is_file(const char *name);      // a database in one
void remove_unknown_files(struct store *s);
void remove_unknown_tables(struct store *s);     // of internal.sqlite
uint64_t unknown_files_applied(struct store *s); // the highest index any file that the catalog does not know has

// --- durability (sync.c) ---
struct sync_job { // what the pool is to fsync
  struct path_list {
    char **paths;
    size_t n;
  } files, databases, names; // databases: only through SQLite; names: the directory in which each is
};
bool db_has_transaction(const struct db *d); // one that may be ended
void store_commit_all(struct store *s);
void store_commit_due(struct store *s, int64_t now_ms);
void sync_add_wal(struct db *d, struct sync_job *j);
void sync_add_database(struct db *d, struct sync_job *j);       // itself if it is fresh, and its WAL
void sync_add_directories(struct store *s, struct sync_job *j); // in which files were made, and the one above
void sync_run(void *job);
void sync_free(struct sync_job *j);

#endif
