// What a log entry says: effects on files, not requests. Built by the primary, applied by every member in the same way.
//
// An entry is a document {ts: Timestamp, wall: Date, c: [change, change...]}; a change is {k: kind, ...}. Names are
// short because there is one for every document written.
//
//   put     {k:"p", u:uuid, f:file, r:rid, d:document, o?}    insert or replace (an insert when the rid is new; o: true
//                                                             says that it is not)
//   delete  {k:"d", u:uuid, f:file, r:rid, i:_id}
//   create  {k:"create", u, ns, o:options, f:first file, sk:shard key, x:[index spec with id]}
//   drop    {k:"drop", u}
//   rename  {k:"rename", u, ns, dropTarget: uuid?}
//   options {k:"options", u, o}                               collMod
//   shardkey {k:"shardkey", u, sk}                            an unsharded collection becomes sharded, in place (or
//   back: {}) index   {k:"index", u, id, x:spec}                        declared, not ready: maintained from here on
//   build   {k:"build", u, id, f, a:after rid, n}             adds the next n rids of file f to index id
//   ready   {k:"ready", u, id}
//   unindex {k:"unindex", u, id}
//   file    {k:"file", u, f, min, max}                        a staged file for a range being received
//   adopt   {k:"adopt", u, f, min, max}                       becomes active and takes the interval
//   copy    {k:"copy", u, f, r, d}                            a document of another file of the collection, put into
//   the
//                                                             staged file that is to replace that one: no write of its
//                                                             own, and applied as put
//   uncopy  {k:"uncopy", u, f, r, i}                          it changed place or went away since; applied as delete
//   merge   {k:"merge", u, f, from:[file...]}                 the staged file has the documents of these active files,
//                                                             under their rids: it takes all of their intervals and
//                                                             becomes active, and they are forgotten, in one step
//   unfile  {k:"unfile", u, f}                                staged or active: forgotten, unlinked once that is
//   durable; its
//                                                             intervals go to the collection's lowest-numbered active
//                                                             file
//   range   {k:"range", u, f, min, max, n}                    deletes up to n documents of file f within [min, max)
//   session {k:"session", l:lsid, t:txnNumber, s:stmtId, r:reply, u?, sk?: encoded shard key}
//   noop    {k:"noop"}
#ifndef SHARDLET_STORE_CHANGE_H
#define SHARDLET_STORE_CHANGE_H

#include "common/store/store.h"

struct change_list { // one entry under construction
  bson_t doc, changes;
  uint32_t n;
  size_t bytes; // of the entry so far
};

enum { ENTRY_TARGET_BYTES = 256 * 1024 }; // entries are at most this, but for one larger document or one catalog commit

void changes_init(struct change_list *l);
void changes_clear(struct change_list *l);
void changes_cleanup(struct change_list *l);
// Closes the list: the finished entry with its timestamp, valid until clear/cleanup.
const bson_t *changes_finish(struct change_list *l, uint64_t ts, int64_t wall_ms);

void change_put(struct change_list *l, const struct collection *c, uint32_t file, int64_t rid, const bson_t *doc);
// A put that replaces the document under this rid: applied in the same way, but local.oplog.rs tells it from an insert.
void change_replace(struct change_list *l, const struct collection *c, uint32_t file, int64_t rid, const bson_t *doc);
void change_delete(struct change_list *l, const struct collection *c, uint32_t file, int64_t rid,
                   const bson_value_t *id);
void change_create(struct change_list *l, const uint8_t uuid[16], const char *ns, const bson_t *options, uint32_t file,
                   const bson_t *shard_key, const bson_t *indexes); // indexes: array of {id, spec}; _id is implied
void change_drop(struct change_list *l, const uint8_t uuid[16]);
void change_rename(struct change_list *l, const uint8_t uuid[16], const char *ns, const uint8_t *drop_target);
void change_options(struct change_list *l, const uint8_t uuid[16], const bson_t *options);
void change_shard_key(struct change_list *l, const uint8_t uuid[16], const bson_t *key);
void change_index(struct change_list *l, const uint8_t uuid[16], uint32_t id, const bson_t *spec);
void change_index_build(struct change_list *l, const uint8_t uuid[16], uint32_t id, uint32_t file, int64_t after_rid,
                        int32_t n);
void change_index_ready(struct change_list *l, const uint8_t uuid[16], uint32_t id);
void change_unindex(struct change_list *l, const uint8_t uuid[16], uint32_t id);
void change_file(struct change_list *l, const uint8_t uuid[16], uint32_t file, struct key min, struct key max);
void change_adopt(struct change_list *l, const uint8_t uuid[16], uint32_t file, struct key min, struct key max);
void change_copy(struct change_list *l, const struct collection *c, uint32_t file, int64_t rid, const bson_t *doc);
void change_uncopy(struct change_list *l, const struct collection *c, uint32_t file, int64_t rid,
                   const bson_value_t *id);
void change_merge(struct change_list *l, const uint8_t uuid[16], uint32_t file, const uint32_t *from, size_t n);
void change_unfile(struct change_list *l, const uint8_t uuid[16], uint32_t file);
void change_range_delete(struct change_list *l, const uint8_t uuid[16], uint32_t file, struct key min, struct key max,
                         int32_t n);
void change_session(struct change_list *l, const uint8_t lsid[16], int64_t txn_number, int32_t stmt_id,
                    const bson_t *reply, const struct collection *c, const struct key *shard_key);
void change_noop(struct change_list *l);

// Reading an entry: calls fn for each change. Migrations capture from here.
struct change {
  const char *kind;
  uint8_t uuid[16];
  uint32_t file;
  int64_t rid;
  bson_t doc;      // "d" of a put
  bson_value_t id; // "_id" of a put or a delete
  bson_t raw;      // the whole change
};
void changes_each(const bson_t *entry, bool (*fn)(void *ctx, const struct change *c), void *ctx);
uint64_t entry_ts(const bson_t *entry);

// The result of the last "build" and "range" slices that were applied, for the primary that paces them.
struct slice_result {
  int64_t last_rid;
  int64_t n;
  int64_t bytes;
  bool done;
  bool duplicate;
  bson_value_t duplicate_id; // EOD: it is not known which document it was
  int32_t failed;            // a document's keys could not be made: the code of index_keys_of(), 0 = none
};
bool store_last_slice(const struct store *s, const uint8_t uuid[16], struct slice_result *out);

#endif
