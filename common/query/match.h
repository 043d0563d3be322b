// The query language's filters: parse once, match many documents.
#ifndef SHARDLET_QUERY_MATCH_H
#define SHARDLET_QUERY_MATCH_H

#include <bson/bson.h>
#include <stdbool.h>

#include "common/base/arena.h"
#include "common/base/error.h"

struct match; // an immutable tree; belongs to the arena it was parsed into

// What $expr and `let` may refer to, and where a filter is used. All zero is fine.
struct match_options {
  const bson_t *let; // variables ($$name), may be NULL
  int64_t now_ms;    // $$NOW; 0 = the time of parsing
};

// err as MongoDB's: BadValue "unknown operator: $foo", FailedToParse... An operator that MongoDB has and this project
// has not is refused by name. The tree borrows from nothing: `filter` may go away.
struct match *match_parse(struct arena *a, const bson_t *filter, const struct match_options *o, struct error *err);

bool match_always_true(const struct match *m);

// Matching allocates nothing, but for $expr. One match must not be used by two threads at once.
bool match_doc(const struct match *m, const bson_t *doc);

// As match_doc; `position` receives the index of the array element that matched (for the positional `$`), -1 = none.
bool match_doc_position(const struct match *m, const bson_t *doc, int *position);

// An evaluation can fail ($expr dividing by zero, a regular expression that backtracks without end). Matching then says
// false and remembers the first failure; whoever ran a scan asks afterwards. false: there was one, err is set.
bool match_ok(const struct match *m, struct error *err);

// An array filter ({"x.y": {$gt: 1}} for arrayFilters) or a condition over one value: the first component of every
// path stands for the value, whatever it is called.
bool match_value(const struct match *m, const bson_value_t *v);

// The value that the filter fixes a dotted path to by equality at the top level or under $and; not from $in, regex,
// null tests with $exists. Used by upserts and to target by shard key.
bool match_equality(const struct match *m, const char *path, bson_value_t *out);
// Every such pair, for building the document that an upsert inserts.
void match_each_equality(const struct match *m, bool (*fn)(void *ctx, const char *path, const bson_value_t *v),
                         void *ctx);

// The filter in MongoDB's normal form, as explain's parsedQuery.
void match_describe(const struct match *m, bson_t *out);

#endif
