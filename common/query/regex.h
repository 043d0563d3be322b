// Regular expressions (PCRE2) as the query language uses them: $regex, regex literals, $regexMatch and its family.
#ifndef SHARDLET_QUERY_REGEX_H
#define SHARDLET_QUERY_REGEX_H

#include <stdbool.h>
#include <stddef.h>

#include "common/base/arena.h"
#include "common/base/error.h"

struct regex;

// options: letters of "imsxu". Belongs to the arena. err: Location51091 (pattern), Location51108 (options).
struct regex *regex_compile(struct arena *a, const char *pattern, size_t len, const char *options, struct error *err);

// Searches text[start..len). 1: found, 0: not found, -1: it could not be decided (too much backtracking); then err is
// set (Location51156). Not to be called on one regex from two threads.
int regex_search(const struct regex *r, const char *text, size_t len, size_t start, struct error *err);

// After a successful search: group i's place in the text (0 = the whole match). false: the group took no part.
size_t regex_group_count(const struct regex *r); // without the whole match
bool regex_group(const struct regex *r, size_t i, size_t *from, size_t *to);

// The literal text that every matching string must start with, "" when there is none (its length is *len). *exact: a
// string matches if and only if it starts with it.
const char *regex_prefix(struct arena *a, const char *pattern, size_t pattern_len, const char *options, size_t *len,
                         bool *exact);

#endif
