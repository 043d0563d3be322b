// What a command asks to read: filter, sort, hint, skip and limit, parsed the same way for find, count, distinct,
// aggregate, update, delete, findAndModify and explain.
#ifndef SHARDLET_NODE_QUERY_H
#define SHARDLET_NODE_QUERY_H

#include "common/query/match.h"
#include "common/query/sort.h"
#include "common/store/store.h"

struct query {
  const bson_t *filter; // {} = everything
  struct match *match;
  struct match_options options;
  const bson_t *sort_spec; // as given, NULL = none
  struct sort *sort;       // NULL = none, also for $natural
  int natural;             // 1, -1: the order of insertion is asked for by sort or hint; 0 = not
  const char *hint_name;   // an index by its name or
  const bson_t *hint_key;  // by its key; NULL = none
  int64_t skip, limit;     // limit 0 = none
};

// Reads `filter_field`, sort, hint, let, skip, limit and collation of `command`, which must live as long as the query
// (a cursor's query is parsed from a copy of its command).
bool query_parse(struct arena *a, const bson_t *command, const char *filter_field, struct query *out,
                 struct error *err);
// A query for a filter alone.
bool query_of_filter(struct arena *a, const bson_t *filter, struct query *out, struct error *err);
// A statement {q, hint, collation} of an update or delete command, whose `let` is the command's.
bool query_parse_statement(struct arena *a, const bson_t *statement, const bson_t *command, struct query *out,
                           struct error *err);
// Reads only sort and hint (of a statement whose filter is parsed elsewhere).
bool query_parse_sort(struct arena *a, const bson_t *spec, struct query *out, struct error *err);
bool query_parse_hint(struct arena *a, const bson_t *command, struct query *out, struct error *err);

#endif
