// value_compare() and the key encoding must agree on every pair of values, and with known orders.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/base/arena.h"
#include "common/bson/compare.h"
#include "common/bson/doc.h"
#include "common/bson/key.h"

// In MongoDB's order; those of one line are equal.
static const char *const ordered[] = {
    "{\"v\":{\"$minKey\":1}}",
    "{\"v\":{\"$undefined\":true}}",
    "{\"v\":null}",
    "{\"v\":{\"$numberDouble\":\"NaN\"}} {\"v\":{\"$numberDecimal\":\"NaN\"}}",
    "{\"v\":{\"$numberDouble\":\"-Infinity\"}} {\"v\":{\"$numberDecimal\":\"-Infinity\"}}",
    "{\"v\":{\"$numberDecimal\":\"-1E6000\"}}",
    "{\"v\":-1.7976931348623157e308}",
    "{\"v\":{\"$numberLong\":\"-9223372036854775808\"}} {\"v\":-9223372036854775808.0}",
    "{\"v\":{\"$numberLong\":\"-9223372036854775807\"}}",
    "{\"v\":{\"$numberDecimal\":\"-9007199254740993.5\"}}",
    "{\"v\":{\"$numberLong\":\"-9007199254740993\"}} {\"v\":{\"$numberDecimal\":\"-9007199254740993\"}}",
    "{\"v\":-9007199254740992.0} {\"v\":{\"$numberLong\":\"-9007199254740992\"}}",
    "{\"v\":-1.5} {\"v\":{\"$numberDecimal\":\"-1.50\"}}",
    "{\"v\":-1} {\"v\":-1.0} {\"v\":{\"$numberLong\":\"-1\"}}",
    "{\"v\":{\"$numberDecimal\":\"-1E-6000\"}}",
    "{\"v\":0} {\"v\":-0.0} {\"v\":{\"$numberDecimal\":\"0E+3\"}} {\"v\":{\"$numberDecimal\":\"-0\"}}",
    "{\"v\":{\"$numberDecimal\":\"1E-6000\"}}",
    "{\"v\":5e-324}",
    "{\"v\":{\"$numberDecimal\":\"0.1\"}}", // the double 0.1 is a little more
    "{\"v\":0.1}",
    "{\"v\":1} {\"v\":1.0} {\"v\":{\"$numberDecimal\":\"1\"}} {\"v\":{\"$numberDecimal\":\"1.000\"}}",
    "{\"v\":9007199254740992.0} {\"v\":{\"$numberLong\":\"9007199254740992\"}}",
    "{\"v\":{\"$numberLong\":\"9007199254740993\"}} {\"v\":{\"$numberDecimal\":\"9007199254740993\"}}",
    "{\"v\":{\"$numberDecimal\":\"9007199254740993.5\"}}",
    "{\"v\":9007199254740994.0}",
    "{\"v\":{\"$numberLong\":\"9223372036854775807\"}}",
    "{\"v\":9223372036854775808.0} {\"v\":{\"$numberDecimal\":\"9223372036854775808\"}}",
    "{\"v\":1.7976931348623157e308}",
    "{\"v\":{\"$numberDecimal\":\"1E400\"}}",
    "{\"v\":{\"$numberDecimal\":\"2E400\"}}",
    "{\"v\":{\"$numberDouble\":\"Infinity\"}} {\"v\":{\"$numberDecimal\":\"Infinity\"}}",
    "{\"v\":\"\"}",
    "{\"v\":\"\\u0000\"}",
    "{\"v\":\"a\"}",
    "{\"v\":\"a\\u0000\"}",
    "{\"v\":\"a\\u0000b\"}",
    "{\"v\":\"ab\"}",
    "{\"v\":\"\\u00e4\"}",
    "{\"v\":{}}",
    "{\"v\":{\"a\":null}}",
    "{\"v\":{\"a\":-1}}",
    "{\"v\":{\"a\":1}} {\"v\":{\"a\":1.0}}",
    "{\"v\":{\"a\":1,\"b\":1}}",
    "{\"v\":{\"b\":-5}}",
    "{\"v\":{\"a\":\"\"}}", // the type counts before the name
    "{\"v\":[]}",
    "{\"v\":[null]}",
    "{\"v\":[1]}",
    "{\"v\":[1,2]}",
    "{\"v\":[2]}",
    "{\"v\":[[]]}",
    "{\"v\":{\"$binary\":{\"base64\":\"\",\"subType\":\"00\"}}}",
    "{\"v\":{\"$binary\":{\"base64\":\"/w==\",\"subType\":\"00\"}}}",
    "{\"v\":{\"$binary\":{\"base64\":\"AA==\",\"subType\":\"05\"}}}",
    "{\"v\":{\"$binary\":{\"base64\":\"AAA=\",\"subType\":\"00\"}}}",
    "{\"v\":{\"$oid\":\"000000000000000000000001\"}}",
    "{\"v\":{\"$oid\":\"ff0000000000000000000000\"}}",
    "{\"v\":false}",
    "{\"v\":true}",
    "{\"v\":{\"$date\":{\"$numberLong\":\"-1\"}}}",
    "{\"v\":{\"$date\":{\"$numberLong\":\"0\"}}}",
    "{\"v\":{\"$date\":{\"$numberLong\":\"1700000000000\"}}}",
    "{\"v\":{\"$timestamp\":{\"t\":1,\"i\":2}}}",
    "{\"v\":{\"$timestamp\":{\"t\":2,\"i\":1}}}",
    "{\"v\":{\"$regularExpression\":{\"pattern\":\"a\",\"options\":\"\"}}}",
    "{\"v\":{\"$regularExpression\":{\"pattern\":\"a\",\"options\":\"i\"}}}",
    "{\"v\":{\"$regularExpression\":{\"pattern\":\"ab\",\"options\":\"\"}}}",
    "{\"v\":{\"$code\":\"x\"}}",
    "{\"v\":{\"$code\":\"x\",\"$scope\":{}}}",
    "{\"v\":{\"$maxKey\":1}}",
};

static int sign(int x) {
  return (x > 0) - (x < 0);
}

static struct key encode(struct arena *a, const bson_value_t *v, bool descending) {
  struct buf b = {0};
  key_append(&b, v, descending);
  struct key k = key_copy(a, &b);
  buf_free(&b);
  return k;
}

static void check_pair(struct arena *a, const bson_value_t *x, const bson_value_t *y, int want) {
  int compared = sign(value_compare(x, y));
  struct key kx = encode(a, x, false), ky = encode(a, y, false);
  int encoded = sign(key_compare(kx, ky));
  struct key dx = encode(a, x, true), dy = encode(a, y, true);
  int descending = sign(key_compare(dx, dy));
  if (compared != want || encoded != want || descending != -want) {
    print_error("%s ? %s: compare %d, keys %d, descending %d, wanted %d\n", value_text(a, x), value_text(a, y),
                compared, encoded, descending, want);
    fail();
  }
  // No encoding is a prefix of a different one.
  if (want) assert_int_not_equal(memcmp(kx.data, ky.data, kx.len < ky.len ? kx.len : ky.len), 0);
}

static void known_order(void **state) {
  struct arena *a = arena_new();
  bson_value_t values[200];
  int rank[200];
  size_t n = 0;
  for (size_t i = 0; i < sizeof ordered / sizeof *ordered; i++) {
    char *line = arena_strdup(a, ordered[i]), *save = NULL;
    // Several documents on one line are separated by "} {".
    for (char *at = line; at; at = save) {
      save = strstr(at, "} {");
      if (save) {
        save[1] = 0;
        save += 2;
      }
      bson_error_t why;
      bson_t *doc = bson_new_from_json((const uint8_t *)at, -1, &why);
      if (!doc) {
        print_error("%s: %s\n", at, why.message);
        fail();
      }
      arena_on_free(a, (void (*)(void *))bson_destroy, doc);
      assert_true(doc_value(doc, "v", &values[n]));
      rank[n++] = (int)i;
    }
  }
  for (size_t i = 0; i < n; i++) {
    for (size_t j = 0; j < n; j++) check_pair(a, &values[i], &values[j], sign(rank[i] - rank[j]));
  }
  arena_free(a);
}

static unsigned seed;
static unsigned below(unsigned n) {
  seed = seed * 1103515245U + 12345U;
  return (seed >> 8) % n;
}

static void append_random(bson_t *doc, const char *name, int depth) {
  switch (below(depth > 2 ? 13 : 15)) {
  case 0: BSON_APPEND_NULL(doc, name); break;
  case 1: BSON_APPEND_INT32(doc, name, (int)below(7) - 3); break;
  case 2: BSON_APPEND_INT64(doc, name, ((int64_t)(below(5)) - 2) * INT64_C(4503599627370497)); break;
  case 3: BSON_APPEND_DOUBLE(doc, name, ((double)below(9) - 4) / 2); break;
  case 4: {
    bson_decimal128_t d;
    char text[64];
    (void)snprintf(text, sizeof text, "%d.%uE%d", (int)below(5) - 2, below(100), (int)below(40) - 20);
    assert_true(bson_decimal128_from_string(text, &d));
    BSON_APPEND_DECIMAL128(doc, name, &d);
    break;
  }
  case 5: {
    char text[4];
    unsigned n = below(4);
    for (unsigned i = 0; i < n; i++) text[i] = (char)below(3);
    bson_append_utf8(doc, name, -1, text, (int)n);
    break;
  }
  case 6: BSON_APPEND_BOOL(doc, name, below(2)); break;
  case 7: BSON_APPEND_DATE_TIME(doc, name, (int64_t)below(5) - 2); break;
  case 8: BSON_APPEND_TIMESTAMP(doc, name, below(2), below(3)); break;
  case 9: {
    bson_oid_t oid = {{0}};
    oid.bytes[below(12)] = (uint8_t)below(256);
    BSON_APPEND_OID(doc, name, &oid);
    break;
  }
  case 10:
    BSON_APPEND_BINARY(doc, name, below(2) ? BSON_SUBTYPE_BINARY : BSON_SUBTYPE_MD5, (uint8_t *)"\0\1\2", below(4));
    break;
  case 11: BSON_APPEND_MINKEY(doc, name); break;
  case 12: BSON_APPEND_REGEX(doc, name, below(2) ? "a" : "", below(2) ? "i" : ""); break;
  default: {
    bson_t child = BSON_INITIALIZER;
    unsigned n = below(3);
    bool array = below(2);
    for (unsigned i = 0; i < n; i++) {
      char key[3] = {array ? (char)('0' + i) : (char)('a' + below(2)), array ? 0 : (char)('a' + i), 0};
      append_random(&child, key, depth + 1);
    }
    if (array)
      BSON_APPEND_ARRAY(doc, name, &child);
    else
      BSON_APPEND_DOCUMENT(doc, name, &child);
    bson_destroy(&child);
  }
  }
}

static void random_pairs(void **state) {
  for (seed = 1; seed < 3000; seed = seed + 1) {
    unsigned start = seed;
    struct arena *a = arena_new();
    bson_t *doc = arena_bson(a);
    bson_value_t values[12];
    for (int i = 0; i < 12; i++) {
      char name[8];
      (void)snprintf(name, sizeof name, "v%d", i);
      append_random(doc, name, 0);
    }
    for (int i = 0; i < 12; i++) {
      char name[8];
      (void)snprintf(name, sizeof name, "v%d", i);
      assert_true(doc_value(doc, name, &values[i]));
    }
    for (int i = 0; i < 12; i++) {
      for (int j = 0; j < 12; j++) check_pair(a, &values[i], &values[j], sign(value_compare(&values[i], &values[j])));
    }
    arena_free(a);
    seed = start;
  }
}

static void compound_keys_and_prefixes(void **state) {
  struct arena *a = arena_new();
  bson_t *pattern = arena_bson(a), *x = arena_bson(a), *y = arena_bson(a);
  BSON_APPEND_INT32(pattern, "a", 1);
  BSON_APPEND_INT32(pattern, "b", -1);
  BSON_APPEND_INT32(x, "a", 1);
  BSON_APPEND_INT32(x, "b", 2);
  BSON_APPEND_DOUBLE(y, "a", 1.0);
  BSON_APPEND_INT32(y, "b", 1);
  struct buf bx = {0}, by = {0};
  key_append_doc(&bx, x, pattern);
  key_append_doc(&by, y, pattern);
  struct key kx = {bx.data, bx.len}, ky = {by.data, by.len};
  assert_true(key_compare(kx, ky) < 0);
  assert_true(doc_compare_pattern(x, y, pattern) < 0);
  struct buf bp = {0};
  bson_value_t one = value_int32(1);
  key_append(&bp, &one, false);
  struct key prefix = {bp.data, bp.len}, end = key_prefix_end(a, prefix);
  assert_true(key_compare(prefix, kx) < 0 && key_compare(kx, end) < 0);
  struct key all_ff = {(const uint8_t *)"\xFF\xFF", 2};
  assert_int_equal(key_prefix_end(a, all_ff).len, 0);
  buf_free(&bx);
  buf_free(&by);
  buf_free(&bp);
  arena_free(a);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(known_order),
      cmocka_unit_test(random_pairs),
      cmocka_unit_test(compound_keys_and_prefixes),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
