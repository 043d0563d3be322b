// Update operators, replacement documents and update pipelines.
#ifndef SHARDLET_QUERY_UPDATE_H
#define SHARDLET_QUERY_UPDATE_H

#include "common/query/match.h"

struct update;

// u: a document of operators, a replacement, or (is_array) a pipeline of $set/$unset/$project/$replaceWith stages.
// array_filters: an array or NULL. err: FailedToParse "Unknown modifier: $foo...", ConflictingUpdateOperators (40)...
struct update *update_parse(struct arena *a, const bson_t *u, bool is_array, const bson_t *array_filters,
                            const struct match_options *o, struct error *err);
bool update_is_replacement(const struct update *u);
// Whether the path itself, a prefix or an extension of it may be written. Replacements and pipelines may write all.
bool update_touches_path(const struct update *u, const char *path);

// Makes the new version of `doc`. position: of match_doc_position(), -1 none. now_ms: for $currentDate and $$NOW.
// insert: this is an upsert's insert ($setOnInsert applies). *modified false: nothing would change, *out is doc's copy.
// `_id` may not change (ImmutableField 66), the result may not pass 16 MiB (Location17419).
bool update_apply(const struct update *u, struct arena *a, const bson_t *doc, int position, int64_t now_ms, bool insert,
                  const bson_t **out, bool *modified, struct error *err);

// The document an upsert starts from: the filter's equalities, then update_apply with insert; `_id` made if absent, and
// first. err also: NotSingleValueField (54) when the filter fixes a path twice.
bool update_upsert_document(const struct update *u, struct arena *a, const struct match *m, int64_t now_ms,
                            const bson_t **out, struct error *err);

#endif
