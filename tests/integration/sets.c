// Starting sets of several members, and taking their primaries away. See sets.h.
#include "tests/integration/sets.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include <cmocka.h>

enum { PRIMARY_MS = 30000, ANSWER_MS = 30000, POLL_MS = 20, STEP_DOWN_S = 5 };

// --- who is primary ---

static bool says_primary(const struct process *p) {
  mongoc_client_t *c = client_of(p);
  bson_t reply;
  bson_iter_t it;
  bool yes = command(c, "admin", &reply, "{'hello':1}") && bson_iter_init_find(&it, &reply, "isWritablePrimary") &&
             bson_iter_as_bool(&it);
  bson_destroy(&reply);
  mongoc_client_destroy(c);
  return yes;
}

struct process *set_other_primary(struct set *s, const struct process * not ) {
  for (int64_t end = now_ms() + PRIMARY_MS; now_ms() < end; wait_ms(POLL_MS)) {
    for (int i = 0; i < s->n; i++) {
      struct process *p = &s->members[i];
      if (p != not &&!s->stopped[i] && process_runs(p) && says_primary(p)) return p;
    }
  }
  fail_msg("%s has no primary within %d ms", s->name, PRIMARY_MS);
  return NULL;
}

struct process *set_primary(struct set *s) {
  return set_other_primary(s, NULL);
}

struct process *set_secondary(struct set *s, int nth) {
  const struct process *primary = set_primary(s);
  for (int i = 0; i < s->n; i++) {
    if (&s->members[i] != primary && nth-- == 0) return &s->members[i];
  }
  return NULL;
}

// --- taking it away ---

struct process *set_kill_primary(struct set *s) {
  struct process *was = set_primary(s);
  (void)process_end(was, SIGKILL);
  (void)set_primary(s);
  return was;
}

struct process *set_step_down_primary(struct set *s) {
  struct process *was = set_primary(s);
  mongoc_client_t *c = client_of(was);
  must(c, "admin", "{'replSetStepDown':%d,'force':true}", STEP_DOWN_S);
  mongoc_client_destroy(c);
  (void)set_other_primary(s, was);
  return was;
}

void set_pause(struct set *s, struct process *member, bool pause) {
  process_signal(member, pause ? SIGSTOP : SIGCONT);
  s->stopped[member - s->members] = pause;
}

void set_kill_all(struct set *const *sets, int n) {
  for (int i = 0; i < n; i++)
    for (int k = 0; k < sets[i]->n; k++) process_signal(&sets[i]->members[k], SIGKILL);
  for (int i = 0; i < n; i++)
    for (int k = 0; k < sets[i]->n; k++) (void)process_end(&sets[i]->members[k], SIGKILL);
}

void set_restart_all(struct set *s) {
  for (int i = 0; i < s->n; i++) {
    if (!process_runs(&s->members[i])) process_launch(&s->members[i]);
  }
}

// --- starting ---

static void wait_for_answer(const struct process *p) {
  int64_t end = now_ms() + ANSWER_MS;
  for (bool ok = false; !ok;) {
    mongoc_client_t *c = client_of(p);
    bson_t reply;
    ok = command(c, "admin", &reply, "{'ping':1}");
    bson_destroy(&reply);
    mongoc_client_destroy(c);
    if (!ok && now_ms() > end) fail_msg("%s does not answer", p->name);
    if (!ok) wait_ms(POLL_MS);
  }
}

static void hosts_of(const struct set *s, char *out, size_t size) {
  size_t n = 0;
  for (int i = 0; i < s->n; i++)
    n += (size_t)snprintf(out + n, size - n, "%s127.0.0.1:%d", i ? "," : "", s->members[i].port);
}

static void set_launch(struct set *s, const char *folder, const char *program, const char *name, int n,
                       const char *more) {
  *s = (struct set){.n = n};
  (void)snprintf(s->name, sizeof s->name, "%s", name);
  for (int i = 0; i < n; i++) {
    struct process *p = &s->members[i];
    *p = (struct process){.program = program, .port = free_port()};
    (void)snprintf(p->name, sizeof p->name, "%s-%d", name, i);
    (void)snprintf(p->folder, sizeof p->folder, "%s", folder);
    (void)snprintf(p->arguments, sizeof p->arguments, "--replSet %s %s", name, more);
    process_launch(p);
  }
}

// With a short election timeout, because the tests wait for many elections.
static void set_initiate(const struct set *s) {
  char members[400] = "";
  size_t n = 0;
  for (int i = 0; i < s->n; i++) {
    wait_for_answer(&s->members[i]);
    n += (size_t)snprintf(members + n, sizeof members - n, "%s{'_id':%d,'host':'127.0.0.1:%d'}", i ? "," : "", i,
                          s->members[i].port);
  }
  mongoc_client_t *c = client_of(&s->members[0]);
  const char *role = !strcmp(s->members[0].program, "configsvr") ? "'configsvr':true," : "";
  must(c, "admin", "{'replSetInitiate':{'_id':'%s',%s'members':[%s],'settings':{'electionTimeoutMillis':%d}}}", s->name,
       role, members, SET_ELECTION_MS);
  mongoc_client_destroy(c);
}

static void start_router(struct set_cluster *c, int i, const char *configdb, const char *shards) {
  struct process *p = &c->routers[i];
  *p = (struct process){.program = "mongos", .port = free_port()};
  (void)snprintf(p->name, sizeof p->name, "mongos%d", i);
  (void)snprintf(p->folder, sizeof p->folder, "%s", c->folder);
  (void)snprintf(p->arguments, sizeof p->arguments, "--configdb cfg/%s --addShards %s", configdb, shards);
  process_start(p);
}

void set_cluster_start(struct set_cluster *c, int members, const char *shard_arguments) {
  char hosts[128], shards[300];
  size_t n = 0;
  *c = (struct set_cluster){0};
  folder_make(c->folder);
  set_launch(&c->config, c->folder, "configsvr", "cfg", members, "");
  for (int i = 0; i < SET_SHARDS; i++)
    set_launch(&c->shards[i], c->folder, "shardd", i ? "sh2" : "sh1", members, shard_arguments);
  set_initiate(&c->config);
  for (int i = 0; i < SET_SHARDS; i++) {
    set_initiate(&c->shards[i]);
    hosts_of(&c->shards[i], hosts, sizeof hosts);
    n += (size_t)snprintf(shards + n, sizeof shards - n, "%s%s/%s", i ? ";" : "", c->shards[i].name, hosts);
  }
  (void)set_primary(&c->config);
  for (int i = 0; i < SET_SHARDS; i++) (void)set_primary(&c->shards[i]);
  hosts_of(&c->config, hosts, sizeof hosts);
  for (int i = 0; i < SET_ROUTERS; i++) start_router(c, i, hosts, shards);
}

// --- ending ---

static void end_in_order(struct process *p) {
  if (!process_runs(p)) return;
  int status = process_end(p, SIGTERM);
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
    fail_msg("%s ended with status %x, see %s", p->name, (unsigned)status, p->folder);
}

static void end_set(struct set *s) {
  for (int i = 0; i < s->n; i++) end_in_order(&s->members[i]);
}

void set_cluster_stop(struct set_cluster *c) {
  for (int i = 0; i < SET_ROUTERS; i++) end_in_order(&c->routers[i]);
  for (int i = 0; i < SET_SHARDS; i++) end_set(&c->shards[i]);
  end_set(&c->config);
  folder_remove(c->folder);
}

int set_cluster_teardown(void **state) {
  set_cluster_stop(*state);
  return 0;
}
