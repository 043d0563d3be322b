// --initiate: members of a set that are started in any order, with lists that differ, and again with data.
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/integration/harness.h"

enum { MEMBERS = 3 };

struct trio {
  char folder[256];
  struct process members[MEMBERS];
  char list[128]; // all three
};

static void set_up(struct trio *t) {
  memset(t, 0, sizeof *t);
  folder_make(t->folder);
  size_t len = 0;
  for (int i = 0; i < MEMBERS; i++) {
    struct process *p = &t->members[i];
    p->program = "shardd";
    p->port = free_port();
    (void)snprintf(p->name, sizeof p->name, "m%d", i);
    (void)snprintf(p->folder, sizeof p->folder, "%s", t->folder);
    len += (size_t)snprintf(t->list + len, sizeof t->list - len, "%s127.0.0.1:%d", i ? "," : "", p->port);
  }
}

static void launch(struct trio *t, int i, const char *list) {
  struct process *p = &t->members[i];
  (void)snprintf(p->arguments, sizeof p->arguments, "--replSet s --initiate %s", list);
  process_launch(p);
}

static void tear_down(struct trio *t) {
  for (int i = 0; i < MEMBERS; i++) (void)process_end(&t->members[i], SIGTERM);
  folder_remove(t->folder);
}

// Whether a member's log has a line with both texts; asks again for 15 s.
static bool logs(const struct trio *t, int i, const char *text, const char *more) {
  char path[320], line[8192];
  (void)snprintf(path, sizeof path, "%s/%s.log", t->folder, t->members[i].name);
  for (int64_t end = now_ms() + 15000; now_ms() < end; wait_ms(50)) {
    FILE *f = fopen(path, "r");
    bool found = false;
    while (f && !found && fgets(line, sizeof line, f)) found = strstr(line, text) && strstr(line, more);
    if (f) (void)fclose(f);
    if (found) return true;
  }
  return false;
}

// How many members say that they are one of n; asks again for 30 s until it is `wanted`.
static int in_set(const struct trio *t, int wanted) {
  int n = 0;
  for (int64_t end = now_ms() + 30000; n != wanted && now_ms() < end; wait_ms(50)) {
    n = 0;
    for (int i = 0; i < MEMBERS; i++) {
      mongoc_client_t *c = client_of(&t->members[i]);
      bson_t reply;
      bson_iter_t it;
      bool ok = command(c, "admin", &reply, "{'hello': 1}");
      n += ok && bson_iter_init_find(&it, &reply, "hosts") && bson_iter_init_find(&it, &reply, "primary");
      bson_destroy(&reply);
      mongoc_client_destroy(c);
    }
  }
  return n;
}

static void any_order(void **state) {
  struct trio t;
  set_up(&t);
  char missing[80];
  launch(&t, 2, t.list);
  (void)snprintf(missing, sizeof missing, "\"members\":\"127.0.0.1:%d,127.0.0.1:%d\"", t.members[0].port,
                 t.members[1].port);
  assert_true(logs(&t, 2, "Waiting for members of the replica set that is to be initiated", missing));
  launch(&t, 0, t.list);
  (void)snprintf(missing, sizeof missing, "\"members\":\"127.0.0.1:%d\"", t.members[1].port);
  assert_true(logs(&t, 0, "Waiting for members of the replica set that is to be initiated", missing));
  launch(&t, 1, t.list);
  assert_int_equal(in_set(&t, MEMBERS), MEMBERS);
  assert_true(logs(&t, 0, "New replica set initiated", "")); // by nobody else
  for (int i = 0; i < MEMBERS; i++) assert_int_equal(process_end(&t.members[i], SIGTERM), 0);
  // Again, with data: nothing happens, whatever the list says.
  launch(&t, 0, t.list);
  launch(&t, 1, t.list);
  char alone[64];
  (void)snprintf(alone, sizeof alone, "127.0.0.1:%d", t.members[2].port);
  launch(&t, 2, alone);
  assert_int_equal(in_set(&t, MEMBERS), MEMBERS);
  assert_true(logs(&t, 2, "--initiate lists other members than the replica set has", ""));
  tear_down(&t);
}

static void lists_that_differ(void **state) {
  struct trio t;
  set_up(&t);
  char other[64], given[96];
  (void)snprintf(other, sizeof other, "127.0.0.1:%d,127.0.0.1:%d", t.members[1].port, t.members[0].port);
  launch(&t, 0, t.list);
  launch(&t, 1, other);
  launch(&t, 2, t.list);
  (void)snprintf(given, sizeof given, "was started with --initiate %s", other);
  assert_true(logs(&t, 0, "\"s\":\"E\"", given));
  assert_true(logs(&t, 1, "\"s\":\"E\"", "give all members the same list"));
  assert_true(logs(&t, 2, "\"s\":\"E\"", given));
  // With the right list it goes on.
  assert_int_equal(process_end(&t.members[1], SIGTERM), 0);
  launch(&t, 1, t.list);
  assert_int_equal(in_set(&t, MEMBERS), MEMBERS);
  tear_down(&t);
}

static void not_in_the_list(void **state) {
  struct trio t;
  set_up(&t);
  char others[64];
  (void)snprintf(others, sizeof others, "127.0.0.1:%d,127.0.0.1:%d", t.members[0].port, t.members[1].port);
  launch(&t, 0, others);
  launch(&t, 1, others);
  assert_int_equal(in_set(&t, 2), 2);
  launch(&t, 2, others);
  assert_true(logs(&t, 2, "Waiting to be taken into the replica set", "it is in a set already"));
  tear_down(&t);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(any_order),
      cmocka_unit_test(lists_that_differ),
      cmocka_unit_test(not_in_the_list),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
