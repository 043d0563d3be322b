// Sorts documents in memory: all of them, or (with a limit) the first few, which are kept in a heap meanwhile.
#include <stdlib.h>
#include <string.h>

#include "common/bson/key.h"
#include "common/query/sort_internal.h"
#include "common/query/values.h"

enum { SORTER_MAX_BYTES = 100 * 1024 * 1024 };

struct entry {
  uint8_t *bytes; // malloc'd: the key, then the document
  size_t key_len, doc_len;
  uint64_t at; // order of arrival, so that equal keys keep it
};

struct sorter {
  const struct sort *sort;
  size_t limit;
  struct entry *entries;
  size_t n, cap, next;
  uint64_t arrived;
  size_t bytes;
  struct buf key; // of the document being added
  bson_t current; // the view that sorter_next() gave last
};

static void sorter_free(void *arg) {
  struct sorter *x = arg;
  for (size_t i = 0; i < x->n; i++) free(x->entries[i].bytes);
  free(x->entries);
  buf_free(&x->key);
}

struct sorter *sorter_new(struct arena *a, const struct sort *s, size_t limit) {
  struct sorter *x = arena_zalloc(a, sizeof *x);
  x->sort = s;
  x->limit = limit;
  arena_on_free(a, sorter_free, x);
  return x;
}

static int compare_bytes(const uint8_t *a, size_t na, const uint8_t *b, size_t nb) {
  size_t n = na < nb ? na : nb;
  int order = n ? memcmp(a, b, n) : 0;
  return order ? order : (na > nb) - (na < nb);
}

static int compare_entries(const void *a, const void *b) {
  const struct entry *x = a, *y = b;
  int order = compare_bytes(x->bytes, x->key_len, y->bytes, y->key_len);
  return order ? order : (x->at > y->at) - (x->at < y->at);
}

static void swap(struct entry *a, struct entry *b) {
  struct entry t = *a;
  *a = *b;
  *b = t;
}

// With a limit the entries are a heap with the greatest in front, the first to go.
static void sift_down(struct sorter *x) {
  for (size_t i = 0;;) {
    size_t most = i;
    for (size_t child = 2 * i + 1; child <= 2 * i + 2 && child < x->n; child++) {
      if (compare_entries(&x->entries[child], &x->entries[most]) > 0) most = child;
    }
    if (most == i) return;
    swap(&x->entries[i], &x->entries[most]);
    i = most;
  }
}

static void sift_up(struct sorter *x) {
  for (size_t i = x->n - 1; i && compare_entries(&x->entries[i], &x->entries[(i - 1) / 2]) > 0; i = (i - 1) / 2) {
    swap(&x->entries[i], &x->entries[(i - 1) / 2]);
  }
}

static size_t entry_bytes(const struct entry *e) {
  return e->key_len + e->doc_len + sizeof *e;
}

static bool make_entry(struct sorter *x, const bson_t *doc, struct entry *e, struct error *err) {
  *e = (struct entry){.key_len = x->key.len, .doc_len = doc->len, .at = x->arrived};
  if (x->bytes + entry_bytes(e) > SORTER_MAX_BYTES) {
    return error_set(err, ERR_QueryExceededMemoryLimitNoDiskUseAllowed,
                     "Sort exceeded memory limit of %d bytes, and spilling to disk is not supported", SORTER_MAX_BYTES);
  }
  e->bytes = malloc(e->key_len + e->doc_len);
  if (!e->bytes) return error_set(err, ERR_ExceededMemoryLimit, "no memory for sorting");
  if (e->key_len) memcpy(e->bytes, x->key.data, e->key_len);
  memcpy(e->bytes + e->key_len, bson_get_data(doc), e->doc_len);
  x->bytes += entry_bytes(e);
  return true;
}

static bool make_key(struct sorter *x, const bson_t *doc, struct error *err) {
  bson_value_t key[SORT_MAX_FIELDS];
  if (!sort_key_of(x->sort, doc, key)) {
    return error_set(err, ERR_BadValue, "cannot sort with keys that are parallel arrays");
  }
  buf_clear(&x->key);
  for (size_t i = 0; i < x->sort->n; i++) key_append(&x->key, &key[i], x->sort->fields[i].descending);
  return true;
}

bool sorter_add(struct sorter *x, const bson_t *doc, struct error *err) {
  struct entry e;
  if (!make_key(x, doc, err)) return false;
  x->arrived++;
  if (x->limit && x->n == x->limit) {
    struct entry *last = &x->entries[0];
    // What arrives later than an equal one is behind it.
    if (compare_bytes(x->key.data, x->key.len, last->bytes, last->key_len) >= 0) return true;
    x->bytes -= entry_bytes(last);
    free(last->bytes);
    swap(last, &x->entries[--x->n]);
    sift_down(x);
  }
  if (!make_entry(x, doc, &e, err)) return false;
  x->entries = array_grow(x->entries, &x->cap, x->n + 1, sizeof *x->entries);
  x->entries[x->n++] = e;
  if (x->limit) sift_up(x);
  return true;
}

void sorter_finish(struct sorter *x) {
  if (x->n) qsort(x->entries, x->n, sizeof *x->entries, compare_entries);
}

const bson_t *sorter_next(struct sorter *x) {
  // What was given out before is not needed any more.
  if (x->next && x->next <= x->n) {
    struct entry *given = &x->entries[x->next - 1];
    x->bytes -= entry_bytes(given);
    free(given->bytes);
    given->bytes = NULL;
    given->key_len = given->doc_len = 0;
    x->bytes += sizeof *given;
  }
  if (x->next >= x->n) {
    if (x->next == x->n) x->next++;
    return NULL;
  }
  const struct entry *e = &x->entries[x->next++];
  doc_view(&x->current, e->bytes + e->key_len, e->doc_len);
  return &x->current;
}

size_t sorter_bytes(const struct sorter *x) {
  return x->bytes;
}
