// Random documents, indexes, filters and sorts: whatever plan is chosen, a find answers what a scan of the collection
// does.
//
// Argument: seed. SECONDS of the environment: how long (10).
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "tests/integration/harness.h"

enum { DOCS = 150, QUERIES = 60, TEXT = 1000 };

static uint64_t seed;

static uint32_t pick(uint32_t below) {
  seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407u;
  return (uint32_t)(seed >> 33) % below;
}

static void add(char *text, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void add(char *text, const char *fmt, ...) {
  va_list ap;
  size_t n = strlen(text);
  va_start(ap, fmt);
  (void)vsnprintf(text + n, TEXT - n, fmt, ap);
  va_end(ap);
}

static const char *field(void) {
  static const char *const fields[] = {"a", "b", "c", "d.e"};
  return fields[pick(4)];
}

// Few different values, so that filters meet documents.
static void add_scalar(char *text) {
  switch (pick(9)) {
  case 0: add(text, "null"); break;
  case 1: add(text, "{'$numberDouble':'%u.5'}", pick(6)); break;
  case 2: add(text, "'%c'", 'p' + (int)pick(4)); break;
  case 3: add(text, "%s", pick(2) ? "true" : "false"); break;
  case 4: add(text, "{'$numberLong':'%u'}", pick(6)); break;
  case 5: add(text, "{'$date':{'$numberLong':'%u'}}", pick(4)); break;
  default: add(text, "%u", pick(6));
  }
}

static void add_value(char *text) {
  if (pick(6)) {
    add_scalar(text);
    return;
  }
  add(text, "[");
  for (uint32_t n = pick(4), i = 0; i < n; i++) {
    if (i) add(text, ",");
    add_scalar(text);
  }
  add(text, "]");
}

static void add_document(char *text, int id) {
  add(text, "{'_id':%d", id);
  for (int i = 0; i < 3; i++) {
    if (pick(5) == 0) continue; // missing
    add(text, ",'%c':", 'a' + i);
    add_value(text);
  }
  if (pick(3)) {
    add(text, ",'d':{'e':");
    add_value(text);
    add(text, "}");
  } else if (pick(2)) {
    add(text, ",'d':[{'e':%u},{'e':%u},{'f':1}]", pick(6), pick(6));
  }
  add(text, "}");
}

static void add_condition(char *text) {
  static const char *const orders[] = {"$lt", "$lte", "$gt", "$gte"};
  switch (pick(11)) {
  case 0: add(text, "{'%s':", orders[pick(4)]), add_scalar(text), add(text, "}"); break;
  case 1: add(text, "{'$gte':%u,'$lt':%u}", pick(4), 2 + pick(5)); break;
  case 2:
    add(text, "{'%s':[", pick(4) ? "$in" : "$nin");
    for (uint32_t n = pick(4), i = 0; i <= n; i++) {
      if (i) add(text, ",");
      add_scalar(text);
    }
    add(text, "]}");
    break;
  case 3: add(text, "{'$ne':"), add_scalar(text), add(text, "}"); break;
  case 4: add(text, "{'$exists':%s}", pick(2) ? "true" : "false"); break;
  case 5: add(text, "{'$not':{'%s':%u}}", orders[pick(4)], pick(6)); break;
  case 6: add(text, "{'$elemMatch':{'$gt':%u,'$lt':%u}}", pick(3), 2 + pick(4)); break;
  case 7: add(text, "{'$size':%u}", pick(3)); break;
  case 8: add(text, "{'$regularExpression':{'pattern':'^%c','options':''}}", 'p' + (int)pick(4)); break;
  default: add_value(text);
  }
}

static void add_filter(char *text, int depth) {
  add(text, "{");
  for (uint32_t n = 1 + pick(2), i = 0; i < n; i++) {
    if (i) add(text, ",");
    if (depth && i == 0 && pick(4) == 0) {
      add(text, "'%s':[", pick(3) == 0 ? "$nor" : pick(2) ? "$or" : "$and");
      add_filter(text, depth - 1);
      add(text, ",");
      add_filter(text, depth - 1);
      add(text, "]");
      continue;
    }
    add(text, "'%s':", i ? "b" : field());
    add_condition(text);
  }
  add(text, "}");
}

static void create_indexes(mongoc_client_t *c) {
  for (uint32_t n = pick(4), i = 0; i <= n; i++) {
    char key[TEXT] = "", more[TEXT] = "";
    const char *first = field(), *second = field();
    if (pick(6) == 0) {
      add(key, "'%s':'hashed'", first);
    } else if (pick(2) && strcmp(first, second) != 0) {
      add(key, "'%s':%d,'%s':%d", first, pick(2) ? 1 : -1, second, pick(2) ? 1 : -1);
    } else {
      add(key, "'%s':%d", first, pick(2) ? 1 : -1);
    }
    if (pick(5) == 0) {
      add(more, ",'sparse':true");
    } else if (pick(5) == 0) {
      add(more, ",'partialFilterExpression':{'%s':{'$gt':%u}}", first, pick(3));
    }
    bson_t reply; // a hashed index refuses arrays, two indexes may be the same one: the rest is enough
    (void)command(c, "test", &reply, "{'createIndexes':'plans','indexes':[{'key':{%s},'name':'i%u'%s}]}", key, i, more);
    bson_destroy(&reply);
  }
}

// The _ids in the order of the answer, or sorted.
static int by_number(const void *a, const void *b) {
  return *(const int *)a - *(const int *)b;
}

static int ask(mongoc_client_t *c, const char *filter, const char *rest, bool ordered, int ids[DOCS]) {
  bson_t reply;
  bson_iter_t it, batch, id;
  int n = 0;
  if (!command(c, "test", &reply, "{'find':'plans','filter':%s,'projection':{'_id':1},'batchSize':1000%s}", filter,
               rest))
    fail_msg("%s%s: %s", filter, rest, bson_as_relaxed_extended_json(&reply, NULL));
  assert_true(bson_iter_init(&it, &reply) && bson_iter_find_descendant(&it, "cursor.firstBatch", &batch));
  for (assert_true(bson_iter_recurse(&batch, &it)); bson_iter_next(&it) && n < DOCS;) {
    assert_true(bson_iter_recurse(&it, &id) && bson_iter_find(&id, "_id"));
    ids[n++] = bson_iter_int32(&id);
  }
  bson_destroy(&reply);
  if (!ordered) qsort(ids, (size_t)n, sizeof *ids, by_number);
  return n;
}

static void compare_one(mongoc_client_t *c, uint64_t of) {
  char filter[TEXT] = "", rest[TEXT] = "", natural[TEXT + 40];
  int got[DOCS], want[DOCS];
  add_filter(filter, 2);
  bool ordered = pick(2);
  if (ordered) {
    const char *first = field();
    add(rest, ",'sort':{'%s':%d,'_id':1}", first, pick(2) ? 1 : -1);
    if (pick(3) == 0) add(rest, ",'skip':%u,'limit':%u", pick(10), 1 + pick(30));
  }
  (void)snprintf(natural, sizeof natural, "%s,'hint':{'$natural':1}", rest);
  int n = ask(c, filter, rest, ordered, got), m = ask(c, filter, natural, ordered, want);
  if (n == m && memcmp(got, want, (size_t)n * sizeof *got) == 0) return;
  bson_t reply;
  (void)command(c, "test", &reply, "{'explain':{'find':'plans','filter':%s%s},'verbosity':'queryPlanner'}", filter,
                rest);
  char *plan = bson_as_relaxed_extended_json(&reply, NULL);
  print_error("%d against %d documents, seed %lu: %s%s\n%s\n", n, m, (unsigned long)of, filter, rest, plan);
  bson_free(plan);
  bson_destroy(&reply);
  fail();
}

static void one_collection(mongoc_client_t *c) {
  uint64_t of = seed;
  bson_t reply;
  (void)command(c, "test", &reply, "{'drop':'plans'}");
  bson_destroy(&reply);
  bool indexes_first = pick(2);
  if (indexes_first) create_indexes(c);
  for (int id = 0; id < DOCS; id++) {
    char text[TEXT] = "";
    add_document(text, id);
    (void)command(c, "test", &reply, "{'insert':'plans','documents':[%s]}", text);
    bson_destroy(&reply);
  }
  if (!indexes_first) create_indexes(c);
  for (int i = 0; i < QUERIES; i++) compare_one(c, of);
}

static void indexed_is_scanned(void **state) {
  struct process member;
  char folder[256];
  const char *seconds = getenv("SECONDS");
  folder_make(folder);
  member_start(&member, folder, "shardd", "rs", "");
  mongoc_client_t *c = client_of(&member);
  int64_t end = now_ms() + (seconds ? atoi(seconds) : 10) * 1000;
  int collections = 0;
  do {
    one_collection(c);
    collections++;
  } while (now_ms() < end);
  print_message("%d collections, %d queries each\n", collections, QUERIES);
  mongoc_client_destroy(c);
  assert_int_equal(process_end(&member, SIGTERM), 0);
  folder_remove(folder);
}

int main(int argc, char **argv) {
  seed = argc > 1 ? strtoul(argv[1], NULL, 10) : (uint64_t)time(NULL);
  print_message("seed %lu\n", (unsigned long)seed);
  mongoc_init();
  const struct CMUnitTest tests[] = {cmocka_unit_test(indexed_is_scanned)};
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  mongoc_cleanup();
  return failed;
}
