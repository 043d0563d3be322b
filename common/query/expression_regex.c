// $regexMatch, $regexFind, $regexFindAll and $replaceOne, $replaceAll.
#include <string.h>

#include "common/query/expression_families.h"
#include "common/query/regex.h"
#include "common/query/type_names.h"

enum { ARG_INPUT, ARG_REGEX, ARG_OPTIONS };

static bool pattern_of(struct error *err, const char *name, const bson_value_t *regex, const bson_value_t *options,
                       const char **pattern, size_t *len, const char **flags) {
  *flags = "";
  if (regex->value_type == BSON_TYPE_REGEX) {
    *pattern = regex->value.v_regex.regex;
    *len = strlen(*pattern);
    *flags = regex->value.v_regex.options;
  } else if (value_is_string(regex)) {
    *pattern = regex->value.v_utf8.str;
    *len = regex->value.v_utf8.len;
    if (memchr(*pattern, 0, *len)) {
      return error_set(err, 51109, "%s: regular expression cannot contain an embedded null byte", name);
    }
  } else {
    return error_set(err, 51105, "%s needs 'regex' to be of type string or regex", name);
  }
  if (value_is_nullish(options)) return true;
  if (!value_is_string(options)) return error_set(err, 51106, "%s needs 'options' to be of type string", name);
  if (**flags)
    return error_set(err, 51107, "%s found regex option(s) specified in both 'regex' and 'option' fields", name);
  *flags = options->value.v_utf8.str;
  return true;
}

// A constant pattern is compiled when the expression is parsed.
static bool check_regex(struct expr_parser *p, struct expression *e) {
  const struct expression *regex = e->args[ARG_REGEX], *options = e->args[ARG_OPTIONS];
  if (!expr_is_constant(regex) || (options && !expr_is_constant(options))) return true;
  if (value_is_nullish(&regex->constant)) return true;
  bson_value_t none = value_missing();
  const char *pattern, *flags;
  size_t len;
  if (!pattern_of(p->err, e->op->name, &regex->constant, options ? &options->constant : &none, &pattern, &len,
                  &flags)) {
    return false;
  }
  e->extra = regex_compile(p->arena, pattern, len, flags, p->err);
  return e->extra != NULL;
}

// The regex of a call, and its input. *none: one of them is nullish, so that there is no match.
static bool prepare(const struct expr_call *c, const struct regex **regex, bool *none) {
  const bson_value_t *input = &c->args[ARG_INPUT], *re = &c->args[ARG_REGEX];
  *none = value_is_nullish(input) || value_is_nullish(re);
  *regex = c->e->extra;
  if (!value_is_nullish(input) && !value_is_string(input)) {
    return error_set(c->v->err, 51104, "%s needs 'input' to be of type string", c->e->op->name);
  }
  if (*none || *regex) return true;
  const char *pattern, *flags;
  size_t len;
  if (!pattern_of(c->v->err, c->e->op->name, re, &c->args[ARG_OPTIONS], &pattern, &len, &flags)) return false;
  *regex = regex_compile(c->v->scratch, pattern, len, flags, c->v->err);
  return *regex != NULL;
}

static bool call_regex_match(const struct expr_call *c, bson_value_t *out) {
  const struct regex *regex;
  bool none;
  *out = value_bool(false);
  if (!prepare(c, &regex, &none)) return false;
  if (none) return true;
  const bson_value_t *input = &c->args[ARG_INPUT];
  int found = regex_search(regex, input->value.v_utf8.str, input->value.v_utf8.len, 0, c->v->err);
  *out = value_bool(found == 1);
  return found >= 0;
}

// {match, idx (in characters), captures} of the last search.
static bson_value_t describe_match(struct arena *a, const struct regex *regex, const char *text, int64_t characters) {
  bson_t *doc = arena_bson(a), captures;
  size_t from, to;
  regex_group(regex, 0, &from, &to);
  bson_append_utf8(doc, "match", -1, text + from, (int)(to - from));
  bson_append_int32(doc, "idx", -1, (int32_t)characters);
  bson_append_array_begin(doc, "captures", -1, &captures);
  for (size_t i = 1; i <= regex_group_count(regex); i++) {
    char buf[16];
    const char *key;
    bson_uint32_to_string((uint32_t)(i - 1), &key, buf, sizeof buf);
    if (regex_group(regex, i, &from, &to))
      bson_append_utf8(&captures, key, -1, text + from, (int)(to - from));
    else
      bson_append_null(&captures, key, -1);
  }
  bson_append_array_end(doc, &captures);
  return value_doc(doc);
}

static int64_t characters_between(const char *s, size_t from, size_t to) {
  int64_t n = 0;
  for (; from < to; from++) n += ((unsigned char)s[from] & 0xC0) != 0x80;
  return n;
}

static bool call_regex_find(const struct expr_call *c, bson_value_t *out) {
  const struct regex *regex;
  bool none;
  size_t from, to;
  *out = value_null();
  if (!prepare(c, &regex, &none)) return false;
  if (none) return true;
  const char *text = c->args[ARG_INPUT].value.v_utf8.str;
  int found = regex_search(regex, text, c->args[ARG_INPUT].value.v_utf8.len, 0, c->v->err);
  if (found != 1) return found == 0;
  regex_group(regex, 0, &from, &to);
  *out = describe_match(c->v->scratch, regex, text, characters_between(text, 0, from));
  return true;
}

static bool call_regex_find_all(const struct expr_call *c, bson_value_t *out) {
  const struct regex *regex;
  bool none;
  struct array_builder list;
  array_begin(&list, c->v->scratch);
  *out = array_end(&list);
  if (!prepare(c, &regex, &none)) return false;
  if (none) return true;
  const char *text = c->args[ARG_INPUT].value.v_utf8.str;
  size_t len = c->args[ARG_INPUT].value.v_utf8.len, at = 0, counted = 0;
  int64_t characters = 0;
  while (at <= len) {
    size_t from, to;
    int found = regex_search(regex, text, len, at, c->v->err);
    if (found < 0) return false;
    if (found == 0) break;
    regex_group(regex, 0, &from, &to);
    characters += characters_between(text, counted, from);
    counted = from;
    bson_value_t match = describe_match(c->v->scratch, regex, text, characters);
    array_add(&list, &match);
    // Behind an empty match the search goes on one character further.
    at = to;
    if (to == from) {
      do at++;
      while (at < len && ((unsigned char)text[at] & 0xC0) == 0x80);
    }
  }
  *out = array_end(&list);
  return true;
}

// --- replacing text ---

static bool replace(const struct expr_call *c, bool all, bson_value_t *out) {
  static const char *const names[] = {"input", "find", "replacement"};
  static const int codes[] = {51746, 51745, 51744};
  bool none = false;
  *out = value_null();
  for (size_t i = 0; i < 3; i++) {
    if (value_is_nullish(&c->args[i])) {
      none = true;
    } else if (!value_is_string(&c->args[i])) {
      return error_set(c->v->err, codes[i], "%s requires that '%s' be a string, found: %s", c->e->op->name, names[i],
                       value_text(c->v->scratch, &c->args[i]));
    }
  }
  if (none) return true;
  const char *s = c->args[0].value.v_utf8.str, *find = c->args[1].value.v_utf8.str;
  size_t len = c->args[0].value.v_utf8.len, find_len = c->args[1].value.v_utf8.len, from = 0;
  __attribute__((cleanup(buf_cleanup))) struct buf text = {0};
  while (from <= len) {
    const char *at = memmem(s + from, len - from, find, find_len);
    if (!at) break;
    buf_add(&text, s + from, (size_t)(at - s) - from);
    buf_add(&text, c->args[2].value.v_utf8.str, c->args[2].value.v_utf8.len);
    from = (size_t)(at - s) + find_len;
    if (!all) break;
    if (find_len == 0) { // an empty text is found before every character
      size_t next = from + 1;
      while (next < len && ((unsigned char)s[next] & 0xC0) == 0x80) next++;
      if (from < len) buf_add(&text, s + from, next - from);
      from = next;
    }
  }
  if (from < len) buf_add(&text, s + from, len - from);
  if (text.len > (size_t)DOC_MAX_BYTES) {
    return error_set(c->v->err, ERR_BSONObjectTooLarge, "%s makes a string that is larger than 16 MB", c->e->op->name);
  }
  *out = value_strn(arena_strndup(c->v->scratch, buf_str(&text), text.len), text.len);
  return true;
}

static bool call_replace_one(const struct expr_call *c, bson_value_t *out) {
  return replace(c, false, out);
}

static bool call_replace_all(const struct expr_call *c, bson_value_t *out) {
  return replace(c, true, out);
}

const struct expr_operator EXPR_TEXT_SEARCH[] = {
    {"$regexMatch", "input* regex* options", 0, 0, .call = call_regex_match, .check = check_regex},
    {"$regexFind", "input* regex* options", 0, 0, .call = call_regex_find, .check = check_regex},
    {"$regexFindAll", "input* regex* options", 0, 0, .call = call_regex_find_all, .check = check_regex},
    {"$replaceOne", "input* find* replacement*", 0, 0, .call = call_replace_one},
    {"$replaceAll", "input* find* replacement*", 0, 0, .call = call_replace_all},
    {NULL},
};
