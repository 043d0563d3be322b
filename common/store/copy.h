// Copies of a data directory: taking one from a running store, and putting a store on one (initial sync).
//
// A data directory has generations: the first lies in the directory itself, each later one in generation-<n> within it.
// Which one counts is said elsewhere (store_options.generation), in one place and one write, so that a crash at any
// point leaves the old or the new one; what belongs to no generation that counts is removed at the next start.
//
// A copy is taken file by file while entries are applied, so its files stand at different indexes, as after a crash:
// none below the store's last snapshot, and each consistent in itself. With every entry after that snapshot it becomes
// the state at the highest of them; the rules of store.h hold for it as they do for a crashed directory. One more is
// needed: the catalog is copied LAST. So a file that it knows and that is older than the snapshot was there when the
// list was made, and was copied; one that is younger is made anew by the log; one that it does not know any more is
// removed after the replay.
#ifndef SHARDLET_STORE_COPY_H
#define SHARDLET_STORE_COPY_H

#include "common/net/operation.h"
#include "common/store/store.h"

struct copy_item {
  const char *name; // relative to the directory
  int64_t bytes;    // about
};

// The files a copy needs, the catalog last; names in `a`.
struct copy_item *store_copy_list(struct store *s, struct arena *a, size_t *n);
// An image of one of them as it is committed now, in a temporary file without a name that the caller closes. -1: err,
// or err->code 0 when the file was dropped since. Needs as much free space as the file is large.
int store_copy_file(struct operation *op, struct store *s, const char *name, int64_t *bytes, struct error *err);

// --- on the side that receives; each blocks (for the pool) ---
char *store_generation_path(const char *dbpath, uint64_t generation); // malloc'd
// Makes an empty generation; what is left of an earlier attempt is removed.
bool store_generation_begin(const char *dbpath, uint64_t generation, struct error *err);
// Whether a name from a copy's list is one that a store would give. Its directory is made.
bool store_generation_admit(const char *dbpath, uint64_t generation, const char *name, struct error *err);
// All files are there: makes the generation say that it holds everything up to `snapshot`, and all of it durable.
bool store_generation_finish(const char *dbpath, uint64_t generation, uint64_t snapshot, struct error *err);
// Removes all generations but this one.
void store_generation_keep(const char *dbpath, uint64_t generation);

// Whether a finished generation can be opened as a store of the same role. In the loop; does not yield.
bool store_generation_check(struct store *s, uint64_t generation, struct error *err);
// Puts the store on a finished generation: collections that readers hold are dropped, and every scan ends with
// QueryPlanKilled. Afterwards it is as after store_open(). Waits only for maintenance, before anything is changed;
// false: killed then. A generation that cannot be opened ends the process: it was checked.
bool store_switch(struct operation *op, struct store *s, uint64_t generation, struct error *err);

#endif
