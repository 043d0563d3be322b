// Documents of the tests, written as JSON with single quotes for double ones.
#ifndef SHARDLET_TEST_QUERY_JSON_H
#define SHARDLET_TEST_QUERY_JSON_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/base/arena.h"
#include "common/base/error.h"
#include "common/bson/doc.h"

// Renames keys that begin with '~' to '$...': libbson reads some operators ($regex, $type) as extended JSON.
static void restore_operators(struct arena *a, const bson_t *from, bson_t *to) {
  bson_iter_t it;
  bson_iter_init(&it, from);
  while (bson_iter_next(&it)) {
    const char *key = bson_iter_key(&it);
    char *name = arena_strdup(a, key);
    if (*name == '~') *name = '$';
    bson_t inside, copy;
    if (BSON_ITER_HOLDS_DOCUMENT(&it) || BSON_ITER_HOLDS_ARRAY(&it)) {
      iter_doc(&inside, &it);
      bool array = BSON_ITER_HOLDS_ARRAY(&it);
      if (array)
        bson_append_array_begin(to, name, -1, &copy);
      else
        bson_append_document_begin(to, name, -1, &copy);
      restore_operators(a, &inside, &copy);
      if (array)
        bson_append_array_end(to, &copy);
      else
        bson_append_document_end(to, &copy);
    } else {
      doc_append_value(to, name, bson_iter_value(&it));
    }
  }
}

static bson_t *json(struct arena *a, const char *text) {
  bson_error_t why;
  char *quoted = arena_strdup(a, text);
  for (char *c = quoted; *c; c++) {
    if (*c == '\'') *c = '"';
  }
  bson_t *doc = bson_new_from_json((const uint8_t *)quoted, -1, &why);
  if (!doc) {
    print_error("%s: %s\n", text, why.message);
    fail();
    abort(); // not reached: fail() does not return
  }
  bson_t *out = arena_bson(a);
  restore_operators(a, doc, out);
  bson_destroy(doc);
  return out;
}

static inline const char *show(struct arena *a, const bson_t *doc) {
  char *text = bson_as_canonical_extended_json(doc, NULL);
  char *copy = arena_strdup(a, text ? text : "(not printable)");
  bson_free(text);
  return copy;
}

// An array, from the JSON of its elements within brackets.
static inline const bson_t *json_array(struct arena *a, const char *text) {
  bson_t *doc = json(a, arena_printf(a, "{'x': %s}", text));
  bson_value_t v;
  if (!doc_value(doc, "x", &v)) return doc;
  return arena_bson_copy(a, v.value.v_doc.data, v.value.v_doc.data_len);
}

static inline bson_value_t json_value(struct arena *a, const char *text) {
  bson_value_t v = {0};
  doc_value(json(a, arena_printf(a, "{'x': %s}", text)), "x", &v);
  return v;
}

static inline void assert_same_doc(struct arena *a, const char *what, const bson_t *got, const bson_t *expected) {
  if (doc_equal_bytes(got, expected)) return;
  print_error("%s\n  got      %s\n  expected %s\n", what, show(a, got), show(a, expected));
  fail();
}

static inline void assert_code(const char *what, const struct error *err, int32_t code, const char *part) {
  if (err->code == code && (!part || strstr(err->message, part))) return;
  print_error("%s\n  got      %d %s\n  expected %d %s\n", what, err->code, err->message, code, part ? part : "");
  fail();
}

#endif
