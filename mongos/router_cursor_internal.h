// What router_cursor.c (one cursor) and router_cursors.c (all of them) share.
#ifndef SHARDLET_MONGOS_ROUTER_CURSOR_INTERNAL_H
#define SHARDLET_MONGOS_ROUTER_CURSOR_INTERNAL_H

#include "mongos/merge.h"
#include "mongos/router_cursor.h"
#include "mongos/shard_stream.h"

enum { NO_STREAM = -1 };

struct router_cursor {
  struct router *rt;
  struct arena *arena;   // this struct is in it too
  struct arena *scratch; // of the document at hand
  const char *ns;
  struct stream_session session;
  bool has_lsid;
  uint8_t lsid[16];

  struct shard_stream **streams;
  size_t n_streams, cap_streams;
  ptrdiff_t at; // the stream whose document was given last and is not used up yet, NO_STREAM

  const struct sort *sort;
  bool sort_by_meta;
  struct merge *merge;
  int64_t skip, limit; // still to skip, still to give; limit < 0 = all
  struct pipeline *pipeline;
  const bson_t *(*tap)(void *ctx, struct arena *scratch, const char *shard, const bson_t *doc);
  void *tap_ctx;

  int64_t fetch_size;   // for getMores to shards, < 0 = theirs
  struct operation *op; // that uses the cursor now, NULL = none
  bool ended;           // there is nothing more
  bool has_pending;     // `pending` did not fit into the last reply
  struct buf pending;

  bool direct; // one stream, whose replies pass through
  int64_t id;  // when registered, else 0
  bool no_timeout, killed;
  bool partial_allowed, partial; // allowPartialResults; a shard was passed over
  int64_t last_used_ms;
};

void cursor_free(struct router_cursor *c);         // its memory; the shards' cursors stay
void cursor_kill_streams(struct router_cursor *c); // ends the shards' cursors, in the background
void cursor_register(struct router_cursor *c);     // gives it an id
void cursor_unregister(struct router_cursor *c);
// Appends the next batch to *reply; *more: the cursor goes on.
bool cursor_append_batch(struct operation *op, struct router_cursor *c, bool first, int64_t batch_size, bool single,
                         bson_t *reply, bool *more, struct error *err);
// Puts another id into the cursor of a reply.
void reply_set_cursor_id(bson_t *reply, int64_t id);

#endif
