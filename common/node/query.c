// Parses what commands ask to read.
#include "common/node/query.h"

#include <string.h>

#include "common/bson/doc.h"
#include "common/node/internal.h"

// {$natural: 1} or {$natural: -1}; 0 = something else.
static int natural_direction(const bson_t *spec) {
  bson_iter_t it;
  if (!bson_iter_init(&it, spec) || !bson_iter_next(&it) || strcmp(bson_iter_key(&it), "$natural")) return 0;
  return iter_is_number(&it) && iter_i64(&it) < 0 ? -1 : 1;
}

bool query_parse_sort(struct arena *a, const bson_t *spec, struct query *out, struct error *err) {
  out->sort = NULL;
  out->sort_spec = NULL;
  if (!spec || bson_empty(spec)) return true;
  out->sort_spec = spec;
  int natural = natural_direction(spec);
  if (natural) {
    out->natural = natural;
    return true;
  }
  out->sort = sort_parse(a, spec, err);
  return out->sort != NULL;
}

bool query_parse_hint(struct arena *a, const bson_t *command, struct query *out, struct error *err) {
  bson_iter_t it;
  if (!doc_get(command, "hint", &it) || BSON_ITER_HOLDS_NULL(&it)) return true;
  if (BSON_ITER_HOLDS_UTF8(&it)) {
    out->hint_name = bson_iter_utf8(&it, NULL);
    if (!strcmp(out->hint_name, "$natural")) {
      return error_set(err, ERR_BadValue, "$natural hint must be given as {$natural: 1} or {$natural: -1}");
    }
    return true;
  }
  if (!BSON_ITER_HOLDS_DOCUMENT(&it)) {
    return error_set(err, ERR_FailedToParse, "Hint must be a string or an object");
  }
  const bson_t *key = iter_child(a, &it);
  if (bson_empty(key)) return true;
  int natural = natural_direction(key);
  if (natural) {
    out->natural = natural;
  } else {
    out->hint_key = key;
  }
  return true;
}

bool query_of_filter(struct arena *a, const bson_t *filter, struct query *out, struct error *err) {
  *out = (struct query){.filter = filter ? filter : arena_bson(a)};
  out->match = match_parse(a, out->filter, &out->options, err);
  return out->match != NULL;
}

bool query_parse_statement(struct arena *a, const bson_t *statement, const bson_t *command, struct query *out,
                           struct error *err) {
  *out = (struct query){0};
  bson_iter_t it;
  if (!doc_get(statement, "q", &it) || !BSON_ITER_HOLDS_DOCUMENT(&it)) {
    return error_set(err, ERR_NoSuchKey, "BSON field 'q' of a statement is missing or not an object");
  }
  out->filter = iter_child(a, &it);
  if (!collation_is_simple(statement, err) || !optional_doc(a, command, "let", false, &out->options.let, err)) {
    return false;
  }
  out->match = match_parse(a, out->filter, &out->options, err);
  return out->match && query_parse_hint(a, statement, out, err);
}

bool query_parse(struct arena *a, const bson_t *command, const char *filter_field, struct query *out,
                 struct error *err) {
  *out = (struct query){0};
  const bson_t *sort, *let;
  if (!collation_is_simple(command, err) || !optional_doc(a, command, filter_field, false, &out->filter, err) ||
      !optional_doc(a, command, "sort", false, &sort, err) || !optional_doc(a, command, "let", false, &let, err) ||
      !optional_count(command, "skip", &out->skip, err) || !optional_count(command, "limit", &out->limit, err)) {
    return false;
  }
  if (!out->filter) out->filter = arena_bson(a);
  out->options.let = let;
  out->match = match_parse(a, out->filter, &out->options, err);
  return out->match && query_parse_hint(a, command, out, err) && query_parse_sort(a, sort, out, err);
}
