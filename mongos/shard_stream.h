// The documents of one shard's cursor: the batch that is here, and the cursor from which more can be fetched.
#ifndef SHARDLET_MONGOS_SHARD_STREAM_H
#define SHARDLET_MONGOS_SHARD_STREAM_H

#include "common/base/buf.h"
#include "mongos/router.h"

// What a getMore for a shard's cursor must repeat of the command that opened it.
struct stream_session {
  const bson_t *lsid;            // NULL = none
  const bson_t *read_preference; // NULL = primary
};

struct shard_stream {
  size_t number;            // among its cursor's
  const char *shard, *host; // shard NULL = the config servers
  const char *db, *collection;
  int64_t id;       // the shard's cursor; 0 = it has no more than the batch
  struct buf batch; // the bytes of the reply's array
  bson_iter_t at;
  bool has;       // `doc` is the next document
  bson_t doc;     // view into batch
  struct buf key; // its sort key, when the cursor sorts
};

// From the reply of find, aggregate, getMore... copies the batch; strings go into `a`. err BadValue: no cursor in it.
bool stream_load(struct shard_stream *s, struct arena *a, const bson_t *reply, struct error *err);
// From documents of the router's own.
void stream_load_documents(struct shard_stream *s, const bson_t *const *docs, size_t n);
void stream_advance(struct shard_stream *s); // to the batch's next document
// getMore; batch_size < 0 = the shard's choice. The batch must be used up.
bool stream_fetch(struct operation *op, struct router *rt, struct shard_stream *s, const struct stream_session *session,
                  int64_t batch_size, struct arena *a, struct error *err);
void stream_free(struct shard_stream *s); // what it holds; the shard's cursor stays

// Sends killCursors in a fiber of its own; failures do not matter, the shard's cursor ends by its timeout then.
void shard_cursor_kill(struct router *rt, const char *host, const char *db, const char *collection, int64_t id,
                       const bson_t *lsid);

#endif
