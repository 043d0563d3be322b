// A cursor of the router: the shards' cursors behind it, and how their documents become one stream.
//
//   shards' cursors -> merged by sort key, or as they come -> skip, limit, or the merger's pipeline
//
// A cursor over a single shard whose replies need no change is `direct`: its batches pass through as bytes.
// Cursors are not bound to connections. Those that nobody uses for cursorTimeoutMillis end by themselves.
#ifndef SHARDLET_MONGOS_ROUTER_CURSOR_H
#define SHARDLET_MONGOS_ROUTER_CURSOR_H

#include "common/query/pipeline/pipeline.h"
#include "common/query/sort.h"
#include "mongos/shard_call.h"

struct router_cursor;

// The most that one reply's documents may take; a first batch's size when the client names none.
enum { BATCH_MAX_BYTES = 16 * 1024 * 1024 - 16 * 1024, FIRST_BATCH_DOCUMENTS = 101 };

// A new cursor with memory of its own. ns: as replies are to name it.
struct router_cursor *cursor_new(struct router *rt, const struct request *r, const char *ns);
struct arena *cursor_arena(struct router_cursor *c); // for the sort and pipeline given below
// Takes a shard's cursor from its reply {cursor: {firstBatch, id, ns}}. shard NULL = the config servers. err: the reply
// has no cursor.
bool cursor_add_shard(struct router_cursor *c, const char *shard, const char *host, const bson_t *reply,
                      struct error *err);
// A source of the router's own instead of shards (documents already there), copied.
void cursor_add_documents(struct router_cursor *c, const bson_t *const *docs, size_t n);
// by_meta: the documents carry their key as $sortKey, which is taken out before the client gets them.
void cursor_set_sort(struct router_cursor *c, const struct sort *sort, bool by_meta);
void cursor_set_window(struct router_cursor *c, int64_t skip, int64_t limit); // limit 0 = all
void cursor_set_pipeline(struct router_cursor *c, struct pipeline *p);
void cursor_set_no_timeout(struct router_cursor *c);
// allowPartialResults: shards that are not there are passed over, from now on too. missing: some were already.
void cursor_set_partial(struct router_cursor *c, bool missing);
// Called for each document a shard gave, before anything else: may return another one, from `scratch`.
void cursor_set_tap(struct router_cursor *c,
                    const bson_t *(*tap)(void *ctx, struct arena *scratch, const char *shard, const bson_t *doc),
                    void *ctx);

// Appends cursor: {firstBatch | nextBatch, id, ns}. batch_size: documents at most, < 0 = not given. single: the cursor
// ends with this batch. The cursor is registered (and gets an id) when there is more, else freed; freed on failure too.
bool cursor_reply(struct operation *op, struct router_cursor *c, bool first, int64_t batch_size, bool single,
                  bson_t *reply, struct error *err);
// Appends a shard's whole reply; when its cursor goes on, a direct cursor is registered and its id put in.
bool cursor_reply_direct(struct request *r, const struct shard_call *call, const char *ns, bool no_timeout,
                         bson_t *reply, struct error *err);
// Ends the shards' cursors (in the background) and frees this one, which is not registered.
void cursor_discard(struct router_cursor *c);
// Ends cursors that shards opened for calls of which others failed.
void calls_kill_cursors(struct router *rt, const struct request *r, const struct shard_call *calls, size_t n);

// getMore of a registered cursor.
bool cursor_get_more(struct request *r, int64_t id, const char *ns, int64_t batch_size, bson_t *reply,
                     struct error *err);

enum cursor_kill { CURSOR_KILLED, CURSOR_NOT_FOUND };
enum cursor_kill cursor_kill(struct router *rt, int64_t id);

struct router_cursors *router_cursors_new(struct router *rt); // starts the reaper
void router_cursors_free(struct router_cursors *all);
// Of sessions that ended or were killed; lsid NULL = all of them.
void router_cursors_kill_session(struct router_cursors *all, const uint8_t lsid[16]);
void router_cursors_status(const struct router_cursors *all, bson_t *out); // metrics.cursor

#endif
