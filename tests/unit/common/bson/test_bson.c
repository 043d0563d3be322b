// Validation, paths, hashes (with public oracles), index keys, texts.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/base/arena.h"
#include "common/bson/doc.h"
#include "common/bson/hash.h"
#include "common/bson/index_keys.h"
#include "common/bson/path.h"

static bson_t *json(struct arena *a, const char *text) {
  bson_error_t why;
  bson_t *doc = bson_new_from_json((const uint8_t *)text, -1, &why);
  if (!doc) {
    print_error("%s: %s\n", text, why.message);
    fail();
  }
  arena_on_free(a, (void (*)(void *))bson_destroy, doc);
  return doc;
}

static void hash_oracles(void **state) {
  static const struct {
    const char *value;
    int64_t hash;
  } cases[] = {
      {"0", 4854801880128277513},
      {"0.456", 4854801880128277513},
      {"{\"$numberDouble\":\"NaN\"}", 4854801880128277513},
      {"42", -944302157085130861},
      {"42.123", -944302157085130861},
      {"1.987", 5902408780260971510},
      {"{\"$numberDecimal\":\"1.987\"}", 5902408780260971510},
      {"-1.789", 1140205862565771219},
      {"-2147483648", 6165898260261354870},
      {"2147483647", 1143184177162245883},
      {"{\"$numberLong\":\"9223372036854775807\"}", 921523596458303250},
      {"1.7976931348623157e308", 921523596458303250},
      {"{\"$numberLong\":\"-9223372036854775808\"}", 4532067210535695462},
      {"-1.7976931348623157e308", 4532067210535695462},
      {"{\"$minKey\":1}", 7961148599568647290},
      {"{\"$maxKey\":1}", 5504842513779440750},
      {"{\"$undefined\":true}", 40158834000849533},
      {"null", 2338878944348059895},
      {"\"abc\"", 8478485326885698097},
      {"\"\"", 2049396243249673340},
      {"{\"a\":\"abc\",\"b\":{\"$numberLong\":\"123\"}}", 4771603801758380216},
      {"{}", 7980500913326740417},
      {"[\"bar\",\"baz\",\"qux\"]", -2938911267422831539},
      {"[]", 8849948234993459283},
      {"{\"$binary\":{\"base64\":\"AAECAwQG\",\"subType\":\"00\"}}", 7252465090394235301},
      {"{\"$binary\":{\"base64\":\"AAECAwQG\",\"subType\":\"80\"}}", 5736670452907618262},
      {"{\"$binary\":{\"base64\":\"AAECAwQFBgcICQoLDA0ODw==\",\"subType\":\"04\"}}", 6084661258071355978},
      {"{\"$oid\":\"010203040506070809101112\"}", -5588663249627035708},
      {"{\"$oid\":\"000000000000000000000000\"}", -4293118519463489418},
      {"true", 6405873908747105701},
      {"false", 6289544573401934092},
      {"{\"$date\":{\"$numberLong\":\"6153737367135073092\"}}", 4476222765095560467},
      {"{\"$timestamp\":{\"t\":1432778632,\"i\":287454020}}", 4873046866288452390},
      {"{\"$date\":{\"$numberLong\":\"0\"}}", -1178696894582842035},
      {"{\"$timestamp\":{\"t\":0,\"i\":0}}", -7867208682377458672},
      {"{\"$regularExpression\":{\"pattern\":\"mongodb\",\"options\":\"\"}}", -7275792090268217043},
      {"{\"$regularExpression\":{\"pattern\":\".*\",\"options\":\"i\"}}", 7095855029187981886},
      {"{\"$dbPointer\":{\"$ref\":\"c\",\"$id\":{\"$oid\":\"010203040506070809101112\"}}}", 940175826736461384},
      {"{\"$code\":\"func f() { return 1; }\"}", 6861638109178014270},
      {"{\"$code\":\"func f() { return 1; }\",\"$scope\":{\"c\":true}}", 501342939894575968},
      {"777", -8990214526626424009},
      {"2", 848411777775835583},
      {"470", -3990299269692821389},
      {"\"hello\"", 5347277839332858538},
      {"{\"productId\":1,\"storeId\":1}", 3870651724616910100},
      {"{\"productId\":1.0,\"storeId\":{\"$numberLong\":\"2\"}}", 3211184626249946630},
      {"{\"$oid\":\"507f1f77bcf86cd799439011\"}", -3048436677993134862},
  };
  struct arena *a = arena_new();
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    bson_value_t v;
    assert_true(doc_value(json(a, arena_printf(a, "{\"v\":%s}", cases[i].value)), "v", &v));
    if (bson_hash64(&v, 0) != cases[i].hash) print_error("hash of %s\n", cases[i].value);
    assert_int_equal(bson_hash64(&v, 0), cases[i].hash);
  }
  bson_value_t v = value_int32(42);
  assert_int_equal(bson_hash64(&v, 40513), 4302929669663179197);
  assert_int_equal(bson_hash64(NULL, 0), 2338878944348059895);
  v = value_real(9223372036854775808.0);
  assert_int_equal(bson_hash64(&v, 1), 5744114172487291558);
  int negative = 0;
  for (int i = 0; i < 20000; i++) {
    v = value_int32(i);
    negative += bson_hash64(&v, 0) < 0;
  }
  assert_int_equal(negative, 10140); // the article's halves: 10140 and 9860
  arena_free(a);
}

static void validation_never_trusts(void **state) {
  struct arena *a = arena_new();
  struct error err;
  bson_t *doc =
      json(a, "{\"a\":1,\"b\":[1,{\"c\":\"x\"},null],\"d\":{\"$binary\":{\"base64\":\"AAEC\",\"subType\":\"02\"}},"
              "\"e\":{\"$code\":\"x\",\"$scope\":{\"q\":1}},\"f\":{\"$numberDecimal\":\"1\"},\"g\":true,"
              "\"h\":{\"$regularExpression\":{\"pattern\":\"a\",\"options\":\"i\"}},\"i\":{\"$oid\":"
              "\"507f1f77bcf86cd799439011\"}}");
  assert_true(doc_validate(bson_get_data(doc), doc->len, &err));
  // Cut anywhere it is refused; with any byte changed it is either refused or still walks without leaving its bytes.
  for (size_t n = 0; n < doc->len; n++) {
    uint8_t *part = malloc(n ? n : 1);
    memcpy(part, bson_get_data(doc), n);
    assert_false(doc_validate(part, n, &err));
    free(part);
  }
  uint8_t *copy = malloc(doc->len);
  for (size_t i = 0; i < doc->len; i++) {
    for (unsigned byte = 0; byte < 256; byte++) {
      memcpy(copy, bson_get_data(doc), doc->len);
      copy[i] = (uint8_t)byte;
      if (!doc_validate(copy, doc->len, &err)) continue;
      bson_t view;
      doc_view(&view, copy, doc->len);
      char *text = bson_as_canonical_extended_json(&view, NULL);
      bson_free(text);
    }
  }
  free(copy);
  bson_t *deep = arena_bson(a);
  for (int i = 0; i < DOC_MAX_DEPTH + 5; i++) {
    bson_t *outer = arena_bson(a);
    BSON_APPEND_DOCUMENT(outer, "a", deep);
    deep = outer;
    bool fits = i + 2 <= DOC_MAX_DEPTH;
    assert_int_equal(doc_validate(bson_get_data(deep), deep->len, &err), fits);
    if (!fits) assert_int_equal(err.code, ERR_Overflow);
  }
  arena_free(a);
}

struct collected {
  struct arena *a;
  char *text;
};

static bool collect(void *ctx, const bson_value_t *v) {
  struct collected *c = ctx;
  c->text = arena_printf(c->a, "%s%s;", c->text, v ? value_text(c->a, v) : "-");
  return true;
}

// doc_get() finds what libbson's iterator finds, also beside types that it leaves to libbson and in damaged bytes.
static void finding_fields(void **state) {
  bson_error_t why;
  bson_t *doc = bson_new_from_json(
      (const uint8_t *)"{\"\":1,\"a\":\"text\",\"ab\":{\"a\":7},\"list\":[1,2],\"d\":1.5,\"t\":true,\"n\":null,\"l\":{"
                       "\"$numberLong\":\"5\"},"
                       "\"bin\":{\"$binary\":{\"base64\":\"AQID\",\"subType\":\"00\"}},\"min\":{\"$minKey\":1},"
                       "\"re\":{\"$regularExpression\":{\"pattern\":\"a\",\"options\":\"i\"}},\"last\":{\"$"
                       "numberDecimal\":\"1\"},\"a\":2}",
      -1, &why);
  assert_non_null(doc);
  bson_iter_t each, ours, theirs;
  for (assert_true(bson_iter_init(&each, doc)); bson_iter_next(&each);) {
    const char *name = bson_iter_key(&each);
    assert_true(doc_get(doc, name, &ours) && bson_iter_init_find(&theirs, doc, name));
    assert_int_equal(ours.off, theirs.off);
    assert_int_equal(bson_iter_type(&ours), bson_iter_type(&theirs));
    assert_string_equal(bson_iter_key(&ours), name);
    assert_int_equal(bson_iter_next(&ours), bson_iter_next(&theirs));
    assert_int_equal(ours.off, theirs.off);
  }
  assert_false(doc_get(doc, "lis", &ours) || doc_get(doc, "lists", &ours) || doc_get(doc, "zz", &ours));
  assert_true(doc_get_n(doc, "ab.a", 2, &ours));
  srand(7);
  for (int round = 0; round < 20000; round++) {
    uint8_t *bytes = malloc(doc->len); // of its own size: the sanitizer sees a read past its end
    memcpy(bytes, bson_get_data(doc), doc->len);
    for (int i = rand() % 4; i >= 0; i--) bytes[4 + (size_t)rand() % (doc->len - 5)] = (uint8_t)rand();
    bson_t damaged;
    assert_true(bson_init_static(&damaged, bytes, doc->len));
    (void)doc_get(&damaged, "last", &ours);
    free(bytes);
  }
  bson_destroy(doc);
}

static void paths(void **state) {
  static const struct {
    const char *doc, *path, *each;
  } cases[] = {
      {"{\"a\":1}", "a", "1;"},
      {"{\"a\":1}", "b", "-;"},
      {"{\"a\":1}", "a.b", "-;"},
      {"{\"a\":{\"b\":[1,2]}}", "a.b", "[ 1, 2 ];"},
      {"{\"a\":[{\"b\":1},{\"c\":2},3,{\"b\":4}]}", "a.b", "1;-;4;"},
      {"{\"a\":[{\"b\":1},{\"b\":2}]}", "a.1.b", "2;-;-;"},
      {"{\"a\":[10,20]}", "a.1", "20;"},
      {"{\"a\":[[{\"b\":1}]]}", "a.b", ""},
      {"{\"a\":[[{\"b\":1}]]}", "a.0.b", "1;"},
      {"{\"a\":[]}", "a.b", ""},
  };
  struct arena *a = arena_new();
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct collected c = {.a = a, .text = arena_strdup(a, "")};
    path_each(json(a, cases[i].doc), cases[i].path, collect, &c);
    assert_string_equal(c.text, cases[i].each);
  }
  bson_value_t v;
  assert_true(path_get(json(a, "{\"a\":[{\"b\":7}]}"), "a.0.b", &v));
  assert_int_equal(value_i64(&v), 7);
  struct error err;
  bson_t *key;
  bson_t *pattern = json(a, "{\"a.b\":1,\"c\":1}");
  assert_true(path_extract_key(a, json(a, "{\"a\":{\"b\":5}}"), pattern, true, &key, &err));
  assert_string_equal(doc_text(a, key), "{ a.b: 5, c: null }");
  assert_false(path_extract_key(a, json(a, "{\"a\":[{\"b\":5}]}"), pattern, true, &key, &err));
  assert_int_equal(err.code, ERR_ShardKeyNotFound);
  assert_false(path_extract_key(a, json(a, "{\"a\":{\"b\":[]}}"), pattern, true, &key, &err));
  arena_free(a);
}

// The keys of a document, each computed as a one-key document of the expected values.
static void index_keys(void **state) {
  static const struct {
    const char *pattern, *doc, *keys; // keys: values of each key, separated by spaces between documents
    bool multikey;
  } cases[] = {
      {"{\"a\":1}", "{\"a\":5}", "{\"0\":5}", false},
      {"{\"a\":1}", "{}", "{\"0\":null}", false},
      {"{\"a\":1}", "{\"a\":[3,1,3]}", "{\"0\":1}|{\"0\":3}", true},
      {"{\"a\":1}", "{\"a\":[]}", "{\"0\":{\"$undefined\":true}}", true},
      {"{\"a.b\":1}", "{\"a\":[]}", "{\"0\":null}", true},
      {"{\"a\":1}", "{\"a\":[[1,2]]}", "{\"0\":[1,2]}", true},
      {"{\"a.b\":1}", "{\"a\":[{\"b\":1},{\"b\":[2,3]},7]}", "{\"0\":null}|{\"0\":1}|{\"0\":2}|{\"0\":3}", true},
      {"{\"a.b\":1,\"a.c\":1}", "{\"a\":[{\"b\":1,\"c\":2},{\"b\":3,\"c\":4}]}", "{\"0\":1,\"1\":2}|{\"0\":3,\"1\":4}",
       true},
      {"{\"a\":1,\"b\":1}", "{\"a\":[1,2],\"b\":9}", "{\"0\":1,\"1\":9}|{\"0\":2,\"1\":9}", true},
      {"{\"a.0\":1}", "{\"a\":[7,8]}", "{\"0\":7}", false},
      {"{\"a.b.c\":1}", "{\"a\":{\"b\":{\"c\":\"x\"}}}", "{\"0\":\"x\"}", false},
  };
  struct arena *a = arena_new();
  struct error err;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct index_keys k;
    assert_true(index_keys_of(a, json(a, cases[i].pattern), json(a, cases[i].doc), &k, &err));
    char *list = arena_strdup(a, cases[i].keys), *save;
    size_t n = 0;
    for (char *one = strtok_r(list, "|", &save); one; one = strtok_r(NULL, "|", &save), n++) {
      struct buf b = {0};
      key_append_doc(&b, json(a, one), NULL);
      assert_true(n < k.n);
      assert_int_equal(k.keys[n].len, b.len);
      assert_memory_equal(k.keys[n].data, b.data, b.len);
      buf_free(&b);
    }
    assert_int_equal(k.n, n);
    assert_int_equal(k.multikey, cases[i].multikey);
  }
  struct index_keys k;
  assert_false(index_keys_of(a, json(a, "{\"a\":1,\"b\":1}"), json(a, "{\"a\":[1],\"b\":[2]}"), &k, &err));
  assert_int_equal(err.code, ERR_CannotIndexParallelArrays);
  assert_false(index_keys_of(a, json(a, "{\"a\":\"hashed\"}"), json(a, "{\"a\":[1]}"), &k, &err));
  assert_int_equal(err.code, 16766);
  assert_true(index_keys_of(a, json(a, "{\"a\":1,\"b\":1}"), json(a, "{\"c\":1}"), &k, &err));
  assert_true(k.all_missing);
  arena_free(a);
}

static void numbers_and_texts(void **state) {
  struct arena *a = arena_new();
  bson_t *d = json(
      a, "{\"i\":1,\"l\":{\"$numberLong\":\"5\"},\"d\":2.9,\"e\":{\"$numberDecimal\":\"7.5\"},\"s\":\"x\",\"n\":null}");
  assert_int_equal(doc_i64(d, "l", 0), 5);
  assert_int_equal(doc_i64(d, "d", 0), 2);
  assert_int_equal(doc_i64(d, "e", 0), 7);
  assert_int_equal(doc_i64(d, "s", -1), -1);
  assert_false(doc_bool(d, "n", true));
  assert_true(doc_bool(d, "missing", true));
  assert_string_equal(doc_text(a, d), "{ i: 1, l: 5, d: 2.9, e: 7.5, s: \"x\", n: null }");
  int64_t n;
  bson_value_t v = value_real(3.5);
  assert_false(value_is_integral(&v, &n));
  v = value_real(1e300);
  assert_false(value_is_integral(&v, &n));
  assert_int_equal(value_i64(&v), INT64_MAX);
  arena_free(a);
}

// A client's array may have any keys. They are copied as they are, and nothing is said about it on stderr.
static void arrays_of_others(void **state) {
  bson_t doc = BSON_INITIALIZER, array, copy = BSON_INITIALIZER;
  BSON_APPEND_ARRAY_BEGIN(&doc, "a", &array);
  BSON_APPEND_INT32(&array, "x", 1);
  BSON_APPEND_INT32(&array, "x", 2);
  bson_append_array_end(&doc, &array);
  char name[] = "/tmp/stderr-XXXXXX", said[8];
  int file = mkstemp(name), kept = dup(STDERR_FILENO);
  assert_true(file >= 0 && kept >= 0 && unlink(name) == 0 && dup2(file, STDERR_FILENO) >= 0);
  bson_iter_t it;
  bson_value_t v;
  assert_true(doc_get(&doc, "a", &it) && doc_value(&doc, "a", &v));
  doc_append_iter(&copy, NULL, &it);
  bool same = doc_equal_bytes(&doc, &copy);
  bson_reinit(&copy);
  doc_append_value(&copy, "a", &v);
  same = same && doc_equal_bytes(&doc, &copy);
  (void)fflush(stderr);
  assert_true(dup2(kept, STDERR_FILENO) >= 0);
  assert_true(same);
  assert_int_equal(pread(file, said, sizeof said, 0), 0);
  (void)close(file);
  (void)close(kept);
  bson_destroy(&doc);
  bson_destroy(&copy);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(hash_oracles),
      cmocka_unit_test(validation_never_trusts),
      cmocka_unit_test(paths),
      cmocka_unit_test(finding_fields),
      cmocka_unit_test(index_keys),
      cmocka_unit_test(numbers_and_texts),
      cmocka_unit_test(arrays_of_others),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
