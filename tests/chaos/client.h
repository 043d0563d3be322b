// Single operations on the documents of a workload: {_id: key, k: key, ...}, addressed by both so that the same code
// does for a collection with a hashed _id and for one with ranges of k.
#ifndef SHARDLET_CHAOS_CLIENT_H
#define SHARDLET_CHAOS_CLIENT_H

#include "tests/chaos/run.h"

enum { KEYS = 1000003 }; // keys are in [0, KEYS), a prime

// The n-th key of a workload: all different, spread over the whole range.
int64_t key_number(int64_t n);

struct reading {
  const char *concern; // "majority"...; NULL = none given
  bool secondary;
  mongoc_client_session_t *session; // NULL = none
};

mongoc_collection_t *collection_of(mongoc_client_t *c, const char *load, enum place p); // to be destroyed
// Reads one document; *doc is NULL when there is none, else to be destroyed. false: an error.
bool read_one(mongoc_collection_t *coll, int64_t key, const struct reading *how, bson_t **doc, bson_error_t *why);
// update is JSON with printf's placeholders and single quotes. Counts, and reports what cannot be: an acknowledged
// upsert that neither matched nor inserted. `extra`: more fields of the filter, "" or ",'a':{...}". *matched: may be
// NULL.
enum outcome update_one(struct worker *w, mongoc_collection_t *coll, const char *kind, int64_t key, const char *extra,
                        bool upsert, int64_t *matched, const char *update, ...) __attribute__((format(printf, 8, 9)));
int64_t doc_number(const bson_t *doc, const char *field); // 0 when missing or doc is NULL
// Counts an answer; after an error the thread waits a little.
enum outcome outcome_of(struct worker *w, const char *kind, bool ok, bool is_write, const bson_error_t *why);
bson_t *json(const char *fmt, ...) __attribute__((format(printf, 1, 2))); // single quotes stand for double ones
int64_t unique_value(struct worker *w);

#endif
