// Records of retryable writes that go from one shard to another, with a range or with a whole collection.
#ifndef SHARDLET_SHARDD_SESSION_RECORDS_H
#define SHARDLET_SHARDD_SESSION_RECORDS_H

#include "common/repl/write.h"

// Adds a record, as store_sessions_for_range() gives it, to what is written here, for this collection.
void session_record_add(struct write *w, const struct collection *c, const bson_t *record);

// Where a reader of all records of a collection is: behind this statement of this session.
struct record_place {
  bool given; // false: at the beginning
  uint8_t lsid[16];
  int32_t stmt;
};
void record_place_of(const bson_t *record, struct record_place *out);
void record_place_append(bson_t *to, const char *name, const struct record_place *p);
bool record_place_parse(const bson_t *body, const char *name, struct record_place *out, struct error *err); // optional

// {oplog: [the next records in order of session and statement], more}. Does not yield. Sessions that go on elsewhere
// meanwhile take their old records away, which no page notices.
void session_records_page(struct arena *a, struct store *s, const struct collection *c,
                          const struct record_place *after, bson_t *reply);

#endif
