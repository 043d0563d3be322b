// Cursors: results that are fetched in batches, by find, aggregate, listIndexes... and getMore.
//
// A cursor owns an arena with everything it needs (its parsed query, its access, its saved scan) and belongs to no
// connection. It is in the table only while no command uses it up; while one does, `user` is that command's operation.
// Invariant: between two commands a cursor's scan is saved (`save` was called).
#ifndef SHARDLET_NODE_CURSORS_H
#define SHARDLET_NODE_CURSORS_H

#include "common/node/node.h"

struct cursor {
  struct arena *arena;
  int64_t id; // 0 until it is kept
  const char *ns;
  // The next document (valid until the next call), NULL at the end. May yield.
  bool (*next)(struct operation *op, void *ctx, const bson_t **doc, struct error *err);
  void (*save)(void *ctx);         // NULL: nothing to save
  bool (*at_end)(const void *ctx); // whether it is known, without looking, that nothing follows; NULL: never
  void *ctx;
  const bson_t *unread; // was read and did not fit into the batch
  struct arena *held;   // its memory: as many may not fit as there are batches
  bool has_lsid;
  uint8_t lsid[16];
  bool no_timeout, killed;
  struct operation *user; // the command that reads from it now, NULL = idle
  struct loan *loan;      // internal: how that command's arena gives it back
  int64_t last_used_ms, created_wall_ms;
  int64_t returned;      // documents so far
  const bson_t *command; // that opened it, for currentOp
};

enum { CURSOR_TIMEOUT_MS = 10 * 60 * 1000, CURSOR_FIRST_BATCH = 101, CURSOR_BATCH_BYTES = 16 * 1024 * 1024 };

struct cursors *cursors_new(void);
void cursors_free(struct node *n); // all of them, at the node's end

// A cursor under construction in an arena of its own, which `op`'s arena frees unless cursor_reply() keeps it.
struct cursor *cursor_new(struct request *r, const char *ns);
// Fills a batch of at most batch_size documents and appends {cursor: {firstBatch, id, ns}} to *reply. The cursor is
// kept when there may be more and `single` is false; else it is freed.
bool cursor_reply(struct request *r, struct cursor *c, int64_t batch_size, bool single, bson_t *reply,
                  struct error *err);
// The batchSize of a command's `cursor` field (or the default); err for a command without `cursor`.
bool cursor_batch_size(const bson_t *command, bool required, int64_t *batch_size, struct error *err);

// A source of documents that exist already: the elements of `docs`, an array in the cursor's arena.
void cursor_from_array(struct cursor *c, const bson_t *docs);

bool cursor_get_more(struct request *r, bson_t *reply, struct error *err);
bool cursor_kill_command(struct request *r, bson_t *reply, struct error *err);
void cursors_expire(struct node *n);                               // those idle for too long; called by the timer
void cursors_kill_session(struct node *n, const uint8_t lsid[16]); // endSessions, killSessions
void cursors_status(const struct node *n, bson_t *out);            // metrics.cursor of serverStatus
void cursors_each(struct node *n, bool (*fn)(void *ctx, const struct cursor *c), void *ctx);

#endif
