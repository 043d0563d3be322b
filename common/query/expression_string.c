// String operators. "Bytes" operators count bytes, "CP" operators characters (code points).
#include <ctype.h>
#include <string.h>

#include "common/query/expression_families.h"
#include "common/query/type_names.h"

static const char *name_of(const bson_value_t *v) {
  return type_name(v->value_type);
}

static bool is_continuation(char c) {
  return ((unsigned char)c & 0xC0) == 0x80;
}

static int64_t count_characters(const char *s, size_t len) {
  int64_t n = 0;
  for (size_t i = 0; i < len; i++) n += !is_continuation(s[i]);
  return n;
}

// The byte offset of the n-th character, or len.
static size_t offset_of_character(const char *s, size_t len, int64_t n) {
  size_t i = 0;
  for (; i < len; i++) {
    if (!is_continuation(s[i]) && n-- == 0) break;
  }
  return i;
}

static bson_value_t text_in(struct arena *a, const char *s, size_t len) {
  return value_strn(arena_strndup(a, s, len), len);
}

// What $toUpper, $toLower and the substring operators make of a value that is no string. false: it cannot be one.
static bool coerce(const struct expr_call *c, const bson_value_t *v, bson_value_t *out) {
  char text[64];
  *out = value_str("");
  if (value_is_nullish(v)) return true;
  switch (v->value_type) {
  case BSON_TYPE_UTF8: *out = *v; return true;
  case BSON_TYPE_SYMBOL: *out = value_strn(v->value.v_symbol.symbol, v->value.v_symbol.len); return true;
  case BSON_TYPE_CODE: *out = value_strn(v->value.v_code.code, v->value.v_code.code_len); return true;
  case BSON_TYPE_INT32:
  case BSON_TYPE_INT64: *out = value_str(arena_printf(c->v->scratch, "%lld", (long long)value_i64(v))); return true;
  case BSON_TYPE_DOUBLE: *out = value_str(arena_printf(c->v->scratch, "%.15g", v->value.v_double)); return true;
  case BSON_TYPE_DECIMAL128:
    bson_decimal128_to_string(&v->value.v_decimal128, text);
    *out = value_str(arena_strdup(c->v->scratch, text));
    return true;
  case BSON_TYPE_DATE_TIME: *out = value_str(expr_date_text(c->v->scratch, v->value.v_datetime)); return true;
  default: return error_set(c->v->err, 16007, "can't convert from BSON type %s to String", name_of(v));
  }
}

static bool call_concat(const struct expr_call *c, bson_value_t *out) {
  size_t len = 0, at = 0;
  *out = value_null();
  for (size_t i = 0; i < c->n; i++) {
    if (value_is_nullish(&c->args[i])) return true;
    if (!value_is_string(&c->args[i])) {
      return error_set(c->v->err, 16702, "$concat only supports strings, not %s", name_of(&c->args[i]));
    }
    len += c->args[i].value.v_utf8.len;
  }
  char *joined = arena_alloc(c->v->scratch, len + 1);
  for (size_t i = 0; i < c->n; i++) {
    memcpy(joined + at, c->args[i].value.v_utf8.str, c->args[i].value.v_utf8.len);
    at += c->args[i].value.v_utf8.len;
  }
  joined[len] = 0;
  *out = value_strn(joined, len);
  return true;
}

// Only ASCII letters change case, as in MongoDB.
static bool change_case(const struct expr_call *c, int (*change)(int), bson_value_t *out) {
  bson_value_t v;
  if (!coerce(c, &c->args[0], &v)) return false;
  char *s = arena_strndup(c->v->scratch, v.value.v_utf8.str, v.value.v_utf8.len);
  for (size_t i = 0; i < v.value.v_utf8.len; i++) {
    if ((unsigned char)s[i] < 0x80) s[i] = (char)change(s[i]);
  }
  *out = value_strn(s, v.value.v_utf8.len);
  return true;
}

static bool call_to_upper(const struct expr_call *c, bson_value_t *out) {
  return change_case(c, toupper, out);
}

static bool call_to_lower(const struct expr_call *c, bson_value_t *out) {
  return change_case(c, tolower, out);
}

static bool call_str_len_bytes(const struct expr_call *c, bson_value_t *out) {
  const bson_value_t *v = &c->args[0];
  if (!value_is_string(v)) {
    return error_set(c->v->err, 34473, "$strLenBytes requires a string argument, found: %s", name_of(v));
  }
  *out = value_int32((int32_t)v->value.v_utf8.len);
  return true;
}

static bool call_str_len_cp(const struct expr_call *c, bson_value_t *out) {
  const bson_value_t *v = &c->args[0];
  if (!value_is_string(v)) {
    return error_set(c->v->err, 34471, "$strLenCP requires a string argument, found: %s", name_of(v));
  }
  *out = value_int32((int32_t)count_characters(v->value.v_utf8.str, v->value.v_utf8.len));
  return true;
}

static bool call_strcasecmp(const struct expr_call *c, bson_value_t *out) {
  bson_value_t a, b;
  if (!coerce(c, &c->args[0], &a) || !coerce(c, &c->args[1], &b)) return false;
  int order = strcasecmp(a.value.v_utf8.str, b.value.v_utf8.str);
  *out = value_int32((order > 0) - (order < 0));
  return true;
}

// --- substrings ---

static bool call_substr_bytes(const struct expr_call *c, bson_value_t *out) {
  bson_value_t v;
  const bson_value_t *from = &c->args[1], *count = &c->args[2];
  if (!value_is_number(from) || !value_is_number(count)) {
    bool first = !value_is_number(from);
    return error_set(c->v->err, first ? 16034 : 16035, "%s:  %s must be a numeric type (is BSON type %s)",
                     c->e->op->name, first ? "starting index" : "length", name_of(first ? from : count));
  }
  if (!coerce(c, &c->args[0], &v)) return false;
  const char *s = v.value.v_utf8.str;
  int64_t len = v.value.v_utf8.len, start = value_i64(from), n = value_i64(count);
  if (start < 0) {
    return error_set(c->v->err, 50752, "%s:  starting index must be non-negative (got: %lld)", c->e->op->name,
                     (long long)start);
  }
  if (start > len) start = len;
  if (n < 0 || n > len - start) n = len - start; // a negative length: all of the rest
  if (start < len && is_continuation(s[start])) {
    return error_set(c->v->err, 28656, "%s:  Invalid range, starting index is a UTF-8 continuation byte.",
                     c->e->op->name);
  }
  if (start + n < len && is_continuation(s[start + n])) {
    return error_set(c->v->err, 28657, "%s:  Invalid range, ending index is in the middle of a UTF-8 character.",
                     c->e->op->name);
  }
  *out = text_in(c->v->scratch, s + start, (size_t)n);
  return true;
}

static bool call_substr_cp(const struct expr_call *c, bson_value_t *out) {
  bson_value_t v;
  int64_t start, n;
  const bson_value_t *from = &c->args[1], *count = &c->args[2];
  if (!coerce(c, &c->args[0], &v)) return false;
  if (!value_is_number(from)) {
    return error_set(c->v->err, 34450, "$substrCP: starting index must be a numeric type (is BSON type %s)",
                     name_of(from));
  }
  if (!value_is_integral(from, &start)) {
    return error_set(c->v->err, 34451, "$substrCP: starting index cannot be represented as a 32-bit integral value: %s",
                     value_text(c->v->scratch, from));
  }
  if (!value_is_number(count)) {
    return error_set(c->v->err, 34452, "$substrCP: length must be a numeric type (is BSON type %s)", name_of(count));
  }
  if (!value_is_integral(count, &n)) {
    return error_set(c->v->err, 34453, "$substrCP: length cannot be represented as a 32-bit integral value: %s",
                     value_text(c->v->scratch, count));
  }
  if (n < 0) return error_set(c->v->err, 34454, "$substrCP: length must be a nonnegative integer.");
  if (start < 0) return error_set(c->v->err, 34455, "$substrCP: the starting index must be nonnegative integer.");
  const char *s = v.value.v_utf8.str;
  size_t len = v.value.v_utf8.len, at = offset_of_character(s, len, start);
  size_t bytes = offset_of_character(s + at, len - at, n);
  *out = text_in(c->v->scratch, s + at, bytes);
  return true;
}

// --- searching ---

// An optional index argument of $indexOf...: a non-negative integer.
static bool index_argument(const struct expr_call *c, size_t i, const char *what, int64_t otherwise, int64_t *out) {
  *out = otherwise;
  if (i >= c->n) return true;
  const bson_value_t *v = &c->args[i];
  if (!value_is_number(v) || !value_is_integral(v, out)) {
    return error_set(c->v->err, 40096, "%s requires an integral %s index, found a value of type: %s, with value: %s",
                     c->e->op->name, what, name_of(v), value_text(c->v->scratch, v));
  }
  if (*out < 0) {
    return error_set(c->v->err, 40097, "%s requires a nonnegative %s index, found: %lld", c->e->op->name, what,
                     (long long)*out);
  }
  return true;
}

// The byte offset of `what` in s[from..to), -1 = not there.
static int64_t find_bytes(const char *s, int64_t from, int64_t to, const bson_value_t *what) {
  if (from > to) return -1;
  const char *at = memmem(s + from, (size_t)(to - from), what->value.v_utf8.str, what->value.v_utf8.len);
  return at ? at - s : -1;
}

static bool index_of_string(const struct expr_call *c, bool characters, bson_value_t *out) {
  const bson_value_t *text = &c->args[0], *what = &c->args[1];
  *out = value_null();
  if (value_is_nullish(text)) return true;
  if (!value_is_string(text)) {
    return error_set(c->v->err, characters ? 40093 : 40091, "%s requires a string as the first argument, found: %s",
                     c->e->op->name, name_of(text));
  }
  if (!value_is_string(what)) {
    return error_set(c->v->err, characters ? 40094 : 40092, "%s requires a string as the second argument, found: %s",
                     c->e->op->name, name_of(what));
  }
  const char *s = text->value.v_utf8.str;
  size_t len = text->value.v_utf8.len;
  int64_t most = characters ? count_characters(s, len) : (int64_t)len, from, to;
  if (!index_argument(c, 2, "starting", 0, &from) || !index_argument(c, 3, "ending", most, &to)) return false;
  if (to > most) to = most;
  *out = value_int32(-1);
  if (from > to) return true;
  if (characters) {
    from = (int64_t)offset_of_character(s, len, from);
    to = (int64_t)offset_of_character(s, len, to);
  }
  int64_t at = find_bytes(s, from, to, what);
  if (at >= 0) *out = value_number(characters ? count_characters(s, (size_t)at) : at);
  return true;
}

static bool call_index_of_bytes(const struct expr_call *c, bson_value_t *out) {
  return index_of_string(c, false, out);
}

static bool call_index_of_cp(const struct expr_call *c, bson_value_t *out) {
  return index_of_string(c, true, out);
}

static bool call_split(const struct expr_call *c, bson_value_t *out) {
  const bson_value_t *text = &c->args[0], *by = &c->args[1];
  *out = value_null();
  if (value_is_nullish(text) || value_is_nullish(by)) return true;
  if (!value_is_string(text)) {
    return error_set(c->v->err, 40085,
                     "$split requires an expression that evaluates to a string as a first argument, "
                     "found: %s",
                     name_of(text));
  }
  if (!value_is_string(by)) {
    return error_set(c->v->err, 40086,
                     "$split requires an expression that evaluates to a string as a second argument, "
                     "found: %s",
                     name_of(by));
  }
  if (by->value.v_utf8.len == 0) return error_set(c->v->err, 40087, "$split requires a non-empty separator");
  struct array_builder list;
  array_begin(&list, c->v->scratch);
  const char *s = text->value.v_utf8.str;
  int64_t from = 0, len = text->value.v_utf8.len;
  for (;;) {
    int64_t at = find_bytes(s, from, len, by);
    bson_value_t part = value_strn(s + from, (size_t)((at < 0 ? len : at) - from));
    array_add(&list, &part);
    if (at < 0) break;
    from = at + by->value.v_utf8.len;
  }
  *out = array_end(&list);
  return true;
}

// --- trimming ---

// The white space that is trimmed when no characters are given.
static const char *const WHITESPACE[] = {" ",      "\t",     "\n",     "\v",     "\f",     "\r",     "\u00a0",
                                         "\u1680", "\u2000", "\u2001", "\u2002", "\u2003", "\u2004", "\u2005",
                                         "\u2006", "\u2007", "\u2008", "\u2009", "\u200a"};

static size_t character_length(const char *s, size_t len) {
  size_t n = 1;
  while (n < len && is_continuation(s[n])) n++;
  return n;
}

// Whether the character s[0..len) is to be trimmed. NUL counts as white space too.
static bool is_trimmed(const char *s, size_t len, const bson_value_t *chars) {
  if (value_is_missing(chars)) {
    if (len == 1 && s[0] == 0) return true;
    for (size_t i = 0; i < sizeof WHITESPACE / sizeof *WHITESPACE; i++) {
      if (strlen(WHITESPACE[i]) == len && memcmp(WHITESPACE[i], s, len) == 0) return true;
    }
    return false;
  }
  const char *set = chars->value.v_utf8.str;
  for (size_t i = 0, n = chars->value.v_utf8.len; i < n;) {
    size_t part = character_length(set + i, n - i);
    if (part == len && memcmp(set + i, s, len) == 0) return true;
    i += part;
  }
  return false;
}

static bool trim(const struct expr_call *c, bool left, bool right, bson_value_t *out) {
  const bson_value_t *input = &c->args[0], *chars = &c->args[1];
  *out = value_null();
  if (value_is_nullish(input) || (c->e->args[1] && value_is_nullish(chars))) return true;
  if (!value_is_string(input)) {
    return error_set(c->v->err, 50699, "%s requires its input to be a string, got %s (of type %s) instead.",
                     c->e->op->name, value_text(c->v->scratch, input), name_of(input));
  }
  if (c->e->args[1] && !value_is_string(chars)) {
    return error_set(c->v->err, 50700, "%s requires 'chars' to be a string, got %s (of type %s) instead.",
                     c->e->op->name, value_text(c->v->scratch, chars), name_of(chars));
  }
  const char *s = input->value.v_utf8.str;
  size_t from = 0, to = input->value.v_utf8.len;
  while (left && from < to) {
    size_t n = character_length(s + from, to - from);
    if (!is_trimmed(s + from, n, chars)) break;
    from += n;
  }
  while (right && from < to) {
    size_t start = to - 1;
    while (start > from && is_continuation(s[start])) start--;
    if (!is_trimmed(s + start, to - start, chars)) break;
    to = start;
  }
  *out = text_in(c->v->scratch, s + from, to - from);
  return true;
}

static bool call_trim(const struct expr_call *c, bson_value_t *out) {
  return trim(c, true, true, out);
}

static bool call_ltrim(const struct expr_call *c, bson_value_t *out) {
  return trim(c, true, false, out);
}

static bool call_rtrim(const struct expr_call *c, bson_value_t *out) {
  return trim(c, false, true, out);
}

const struct expr_operator EXPR_STRING[] = {
    {"$concat", NULL, 0, EXPR_VARIADIC, .call = call_concat},
    {"$toUpper", NULL, 1, 1, .call = call_to_upper},
    {"$toLower", NULL, 1, 1, .call = call_to_lower},
    {"$strLenBytes", NULL, 1, 1, .call = call_str_len_bytes},
    {"$strLenCP", NULL, 1, 1, .call = call_str_len_cp},
    {"$strcasecmp", NULL, 2, 2, .call = call_strcasecmp},
    {"$substr", NULL, 3, 3, .call = call_substr_bytes},
    {"$substrBytes", NULL, 3, 3, .call = call_substr_bytes},
    {"$substrCP", NULL, 3, 3, .call = call_substr_cp},
    {"$indexOfBytes", NULL, 2, 4, .call = call_index_of_bytes},
    {"$indexOfCP", NULL, 2, 4, .call = call_index_of_cp},
    {"$split", NULL, 2, 2, .call = call_split},
    {"$trim", "input* chars", 0, 0, .call = call_trim},
    {"$ltrim", "input* chars", 0, 0, .call = call_ltrim},
    {"$rtrim", "input* chars", 0, 0, .call = call_rtrim},
    {NULL},
};
