// Regular expressions over PCRE2.
#define PCRE2_CODE_UNIT_WIDTH 8
#include "common/query/regex.h"

#include <pcre2.h>
#include <string.h>

// How much work one search may do before it is given up: some tens of milliseconds, since nothing else of this process
// runs meanwhile.
enum { MATCH_LIMIT = 1000000, HEAP_LIMIT_KIB = 8192 };

struct regex {
  pcre2_code *code;
  pcre2_match_data *match;
  pcre2_match_context *context;
  size_t groups;
};

static void regex_free(void *arg) {
  struct regex *r = arg;
  pcre2_match_context_free(r->context);
  pcre2_match_data_free(r->match);
  pcre2_code_free(r->code);
}

static bool parse_options(const char *options, uint32_t *flags, struct error *err) {
  *flags = PCRE2_UTF;
  for (const char *o = options; *o; o++) {
    switch (*o) {
    case 'i': *flags |= PCRE2_CASELESS; break;
    case 'm': *flags |= PCRE2_MULTILINE; break;
    case 's': *flags |= PCRE2_DOTALL; break;
    case 'x': *flags |= PCRE2_EXTENDED; break;
    case 'u': break; // Unicode is always on
    default: return error_set(err, 51108, "invalid flag in regex options: %c", *o);
    }
  }
  return true;
}

struct regex *regex_compile(struct arena *a, const char *pattern, size_t len, const char *options, struct error *err) {
  uint32_t flags = 0;
  if (!parse_options(options, &flags, err)) return NULL;
  int code = 0;
  PCRE2_SIZE at = 0;
  pcre2_code *compiled = pcre2_compile((PCRE2_SPTR)pattern, len, flags, &code, &at, NULL);
  if (!compiled) {
    char text[128];
    pcre2_get_error_message(code, (PCRE2_UCHAR *)text, sizeof text);
    error_set(err, 51091, "Regular expression is invalid: %s", text);
    return NULL;
  }
  struct regex *r = arena_zalloc(a, sizeof *r);
  r->code = compiled;
  r->match = pcre2_match_data_create_from_pattern(compiled, NULL);
  r->context = pcre2_match_context_create(NULL);
  arena_on_free(a, regex_free, r);
  if (!r->match || !r->context) {
    error_set(err, ERR_ExceededMemoryLimit, "no memory for a regular expression");
    return NULL;
  }
  pcre2_set_match_limit(r->context, MATCH_LIMIT);
  pcre2_set_heap_limit(r->context, HEAP_LIMIT_KIB);
  uint32_t groups = 0;
  pcre2_pattern_info(compiled, PCRE2_INFO_CAPTURECOUNT, &groups);
  r->groups = groups;
  return r;
}

int regex_search(const struct regex *r, const char *text, size_t len, size_t start, struct error *err) {
  int rc = pcre2_match(r->code, (PCRE2_SPTR)text, len, start, 0, r->match, r->context);
  if (rc > 0) return 1;
  if (rc == PCRE2_ERROR_NOMATCH) return 0;
  // Text that is not UTF-8 (stored so long ago, or by somebody else) matches nothing.
  if (rc <= PCRE2_ERROR_UTF8_ERR1 && rc >= PCRE2_ERROR_UTF8_ERR21) return 0;
  char why[128];
  pcre2_get_error_message(rc, (PCRE2_UCHAR *)why, sizeof why);
  error_set(err, 51156, "Error occurred while executing the regular expression. Result code: %d, %s", rc, why);
  return -1;
}

size_t regex_group_count(const struct regex *r) {
  return r->groups;
}

bool regex_group(const struct regex *r, size_t i, size_t *from, size_t *to) {
  if (i > r->groups) return false;
  const PCRE2_SIZE *at = pcre2_get_ovector_pointer(r->match);
  if (at[2 * i] == PCRE2_UNSET) return false;
  *from = at[2 * i];
  *to = at[2 * i + 1];
  return true;
}

static bool is_quantifier(char c) {
  return c == '*' || c == '?' || c == '+' || c == '{';
}

// The literal character that starts at *p, moved behind it. false: something else starts there.
static bool literal_at(const char **p, const char *end, char *c) {
  if (**p == '\\') {
    if (*p + 1 >= end) return false;
    char next = (*p)[1];
    // An escaped letter or digit has a meaning of its own; other escaped characters stand for themselves.
    bool plain = !((next >= 'a' && next <= 'z') || (next >= 'A' && next <= 'Z') || (next >= '0' && next <= '9'));
    if (!plain || (unsigned char)next >= 0x80) return false;
    *c = next;
    *p += 2;
    return true;
  }
  if (strchr("^$.[]()|*+?{}", **p)) return false;
  *c = **p;
  *p += 1;
  return true;
}

// True when what is left after the prefix accepts everything: the end, or ".*" to the end with dots matching newlines.
static bool rest_accepts_all(const char *p, const char *end, bool dotall) {
  return p == end || (dotall && end - p == 2 && p[0] == '.' && p[1] == '*');
}

const char *regex_prefix(struct arena *a, const char *pattern, size_t pattern_len, const char *options, size_t *len,
                         bool *exact) {
  const char *p = pattern, *end = pattern + pattern_len;
  char *out = arena_alloc(a, pattern_len + 1);
  size_t n = 0;
  *len = 0;
  *exact = false;
  out[0] = 0;
  bool dotall = false;
  for (const char *o = options; *o; o++) {
    if (*o == 's')
      dotall = true;
    else if (*o != 'u')
      return out; // i, m and x change what the letters mean
  }
  // An alternative anywhere may start differently.
  if (memchr(pattern, '|', pattern_len)) return out;
  if (pattern_len >= 1 && *p == '^')
    p++;
  else if (pattern_len >= 2 && p[0] == '\\' && p[1] == 'A')
    p += 2;
  else
    return out;
  while (p < end) {
    const char *before = p;
    char c;
    if (!literal_at(&p, end, &c)) break;
    if (p < end && is_quantifier(*p)) {
      // A quantified character is no part of the prefix. Nor are the earlier bytes of the same UTF-8 character.
      p = before;
      while (n > 0 && ((unsigned char)c & 0xC0) == 0x80) c = out[--n];
      out[n] = 0;
      *len = n;
      return out;
    }
    out[n++] = c;
  }
  out[n] = 0;
  *len = n;
  *exact = n > 0 && rest_accepts_all(p, end, dotall);
  return out;
}
