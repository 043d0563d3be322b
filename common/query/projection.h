// Projections of find, findAndModify and $project's simple forms: inclusion, exclusion, computed fields, $slice,
// $elemMatch, positional `$`. ($meta is refused; {$meta: "sortKey"} is the caller's.)
#ifndef SHARDLET_QUERY_PROJECTION_H
#define SHARDLET_QUERY_PROJECTION_H

#include "common/query/match.h"

struct projection;

// `find`: find's rules (positional, $slice, $elemMatch allowed, {} gives all); otherwise $project's. m: the query, for
// `$`; may be NULL. err: Location31253, 31254 (inclusion and exclusion mixed), 31249, 31250 (path collisions)...
struct projection *projection_parse(struct arena *a, const bson_t *spec, bool find, const struct match *m,
                                    const struct match_options *o, struct error *err);
// Appends the projected fields to *out (initialised, empty).
bool projection_apply(const struct projection *p, struct arena *scratch, const bson_t *doc, bson_t *out,
                      struct error *err);
// Whether only fields of `pattern` are needed (a covered query).
bool projection_covered_by(const struct projection *p, const bson_t *pattern);

#endif
