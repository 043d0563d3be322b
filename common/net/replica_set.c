// The monitor of a replica set: a fiber a member asks `hello` every ten seconds, or at once when something points to a
// change.
//
// A member is believed to be primary when its own hello says so and no primary with a greater electionId was seen (an
// election's id grows with the term): a primary that was stopped and goes on cannot take the place of its successor.
#include "common/net/replica_set.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/base/buf.h"
#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/bson/doc.h"
#include "common/net/replica_set_internal.h"

enum {
  INTERVAL_MS = 10000,        // of a healthy set
  BUSY_INTERVAL_MS = 2000,    // of a member from which somebody waits for an answer
  UNKNOWN_INTERVAL_MS = 2000, // of a member that does not answer
  WANTED_INTERVAL_MS = 25,    // while an operation waits for a member
  HELLO_TIMEOUT_MS = 2000,    // a stopped process accepts connections and never answers
  REPLACED_TIMEOUT_MS = 500,  // of one whose place another took: what runs there can only fail
  MAX_MEMBERS = 50,
};

bool replica_set_parse(struct arena *a, const char *connection_string, const char **name, const char ***hosts,
                       size_t *n, struct error *err) {
  const char *slash = strchr(connection_string, '/');
  if (!slash || slash == connection_string || !slash[1]) {
    return error_set(err, ERR_FailedToParse, "'%s' is not of the form SET/HOST:PORT,HOST:PORT", connection_string);
  }
  *name = arena_strndup(a, connection_string, (size_t)(slash - connection_string));
  *hosts = arena_zalloc(a, MAX_MEMBERS * sizeof **hosts);
  *n = 0;
  char *save, *list = arena_strdup(a, slash + 1);
  for (char *host = strtok_r(list, ",", &save); host; host = strtok_r(NULL, ",", &save)) {
    if (*n == MAX_MEMBERS)
      return error_set(err, ERR_FailedToParse, "more than %d hosts in '%s'", MAX_MEMBERS, connection_string);
    (*hosts)[(*n)++] = strchr(host, ':') ? host : arena_printf(a, "%s:27017", host);
  }
  if (*n == 0) return error_set(err, ERR_FailedToParse, "no host in '%s'", connection_string);
  return true;
}

void replica_set_unref(struct replica_set *s) {
  if (--s->refs) return;
  while (s->members) {
    struct member *m = s->members;
    s->members = m->next;
    bson_destroy(m->tags);
    bson_destroy(m->topology);
    free(m->host);
    free(m);
  }
  free(s->name);
  free(s->given);
  free(s->current);
  free(s);
}

void member_look(struct member *m) {
  m->look_now = true;
  event_signal(&m->look);
}

static struct member *find_member(const struct replica_set *s, const char *host) {
  for (struct member *m = s->members; m; m = m->next) {
    if (!m->gone && !strcasecmp(m->host, host)) return m;
  }
  return NULL;
}

static void watch_member(struct operation *op, void *arg);

static size_t count_members(const struct replica_set *s) {
  size_t n = 0;
  for (const struct member *m = s->members; m; m = m->next) n += !m->gone;
  return n;
}

static void add_member(struct replica_set *s, const char *host) {
  if (find_member(s, host) || count_members(s) >= MAX_MEMBERS) return;
  size_t cap = 0;
  struct member *m = array_grow(NULL, &cap, 1, sizeof *m), **end = &s->members;
  m->host = strdup(host);
  m->rtt_ms = -1;
  m->set = s;
  while (*end) end = &(*end)->next;
  *end = m;
  s->refs++;
  m->op = operation_start(s->loop, "ReplicaSetMonitor", watch_member, m);
  await_start(m);
}

static void append_hosts(const bson_t *hello, const char *field, struct buf *to) {
  bson_t list;
  bson_iter_t it;
  if (!doc_doc(hello, field, &list) || !bson_iter_init(&it, &list)) return;
  while (bson_iter_next(&it)) {
    if (BSON_ITER_HOLDS_UTF8(&it)) buf_printf(to, "%s%s", to->len ? "," : "", bson_iter_utf8(&it, NULL));
  }
}

// The members that a hello names, with commas between; false: it names none.
static bool list_members(const bson_t *hello, struct buf *to) {
  append_hosts(hello, "hosts", to);
  append_hosts(hello, "passives", to);
  return to->len > 0;
}

// Takes the list apart.
static void add_members(struct replica_set *s, struct buf *list) {
  char *save;
  for (char *host = strtok_r((char *)list->data, ",", &save); host; host = strtok_r(NULL, ",", &save))
    add_member(s, host);
}

static void end_watch(struct member *m) {
  if (m->op) operation_kill(m->op, ERR_CallbackCanceled);
  if (m->await_op) operation_kill(m->await_op, ERR_CallbackCanceled);
}

// The primary's list of hosts is the set: members that it lacks are dropped, new ones are watched.
static void take_members(struct replica_set *s, const bson_t *hello) {
  __attribute__((cleanup(buf_cleanup))) struct buf list = {0};
  if (!list_members(hello, &list)) return;
  __attribute__((cleanup(buf_cleanup))) struct buf full = {0};
  buf_printf(&full, "%s/%s", s->name, buf_str(&list));
  if (s->current && !strcmp(s->current, buf_str(&full))) return;
  free(s->current);
  s->current = strdup(buf_str(&full));
  __attribute__((cleanup(buf_cleanup))) struct buf wrapped = {0};
  buf_printf(&wrapped, ",%s,", buf_str(&list));
  for (struct member *m = s->members; m; m = m->next) {
    __attribute__((cleanup(buf_cleanup))) struct buf one = {0};
    buf_printf(&one, ",%s,", m->host);
    if (m->gone || strcasestr(buf_str(&wrapped), buf_str(&one))) continue;
    m->gone = true;
    end_watch(m);
  }
  add_members(s, &list);
}

// Without a primary the members that others name are watched too: one of them may be it. None is dropped.
static void add_named_members(struct replica_set *s, const bson_t *hello) {
  __attribute__((cleanup(buf_cleanup))) struct buf list = {0};
  if (list_members(hello, &list)) add_members(s, &list);
}

static bool newest_election(struct replica_set *s, const bson_t *hello) {
  bson_oid_t id;
  if (!doc_oid(hello, "electionId", &id)) return true;
  if (memcmp(id.bytes, s->election, sizeof s->election) < 0) return false;
  memcpy(s->election, id.bytes, sizeof s->election);
  return true;
}

// Calls that hang on a member that went silent are given up when another one is primary.
static void interrupt_silent(struct replica_set *s) {
  if (!replica_set_primary(s)) return;
  for (struct member *m = s->members; m; m = m->next) {
    if (m->silent && m->kind != KIND_PRIMARY) remotes_interrupt(s->remotes, m->host);
  }
}

// Another member is primary: this one answers soon, or what runs there is given up.
static void replace(struct member *m) {
  m->kind = KIND_UNKNOWN;
  m->replaced = true;
  if (m->asked_ms && loop_now_ms(m->set->loop) - m->asked_ms >= REPLACED_TIMEOUT_MS) m->silent = true;
  member_look(m);
}

void member_take_hello(struct member *m, const bson_t *hello, int64_t took_us) {
  struct replica_set *s = m->set;
  double ms = (double)took_us / 1000;
  if (took_us >= 0) m->rtt_ms = m->rtt_ms < 0 ? ms : m->rtt_ms * 0.8 + ms * 0.2;
  await_take_version(m, hello);
  m->silent = m->replaced = false;
  m->last_update_ms = clock_wall_ms();
  const char *set_name = doc_str(hello, "setName", NULL);
  bson_t last_write, tags;
  bson_iter_t it;
  if (doc_doc(hello, "lastWrite", &last_write) && doc_get(&last_write, "lastWriteDate", &it))
    m->last_write_ms = iter_i64(&it);
  bson_destroy(m->tags);
  m->tags = doc_doc(hello, "tags", &tags) ? bson_copy(&tags) : NULL;
  enum member_kind before = m->kind;
  if (!set_name || strcmp(set_name, s->name) != 0) {
    m->kind = KIND_OTHER;
  } else if (doc_bool(hello, "isWritablePrimary", doc_bool(hello, "ismaster", false))) {
    m->kind = newest_election(s, hello) ? KIND_PRIMARY : KIND_UNKNOWN;
    if (m->kind == KIND_PRIMARY) {
      for (struct member *other = s->members; other; other = other->next) {
        if (other != m && other->kind == KIND_PRIMARY) replace(other);
      }
      take_members(s, hello);
    }
  } else {
    m->kind = doc_bool(hello, "secondary", false) && !doc_bool(hello, "hidden", false) ? KIND_SECONDARY : KIND_OTHER;
    if (!replica_set_primary(s)) add_named_members(s, hello);
    const char *primary = doc_str(hello, "primary", NULL);
    struct member *named = primary ? find_member(s, primary) : NULL;
    // A secondary knows a primary that we do not: ask that one at once.
    if (primary && !named)
      add_member(s, primary);
    else if (named && named->kind != KIND_PRIMARY && before != m->kind)
      member_look(named);
  }
  if (before != m->kind && m->kind == KIND_PRIMARY) {
    log_info("NETWORK", "Found the primary of a replica set", "replicaSet:s host:s", s->name, m->host);
    interrupt_silent(s);
  }
  event_signal(&s->changed);
}

static void ask(struct operation *op, struct member *m) {
  struct replica_set *s = m->set;
  bson_t *hello = arena_bson(op->arena);
  BSON_APPEND_INT32(hello, "hello", 1);
  int64_t timeout_ms = m->replaced ? REPLACED_TIMEOUT_MS : HELLO_TIMEOUT_MS;
  struct remote_command cmd = {.db = "admin", .body = hello, .timeout_ms = timeout_ms};
  const bson_t *reply = NULL;
  struct error err = {0};
  int64_t start = clock_mono_us();
  m->asked_ms = loop_now_ms(op->loop);
  bool ok = remote_call(op, s->remotes, m->host, &cmd, &reply, &err);
  m->asked_ms = 0;
  if (ok) {
    member_take_hello(m, reply, clock_mono_us() - start);
    return;
  }
  if (op->killed) return;
  if (m->kind != KIND_UNKNOWN) {
    log_warn("NETWORK", "A member of a replica set does not answer", "replicaSet:s host:s error:e", s->name, m->host,
             &err);
  }
  // Also where a new connection is refused at once or its name is gone: old ones may hang, if the host was cut off.
  m->silent = error_is_network(err.code);
  m->replaced = false; // once told is enough: the next time it may take longer
  bool was_primary = m->kind == KIND_PRIMARY;
  m->kind = KIND_UNKNOWN;
  interrupt_silent(s);
  if (was_primary) {
    for (struct member *other = s->members; other; other = other->next) {
      if (other != m) member_look(other);
    }
  }
  event_signal(&s->changed);
}

static int64_t interval_ms(const struct member *m) {
  if (m->set->waiting) return WANTED_INTERVAL_MS;
  if (m->kind == KIND_UNKNOWN || m->kind == KIND_OTHER) return UNKNOWN_INTERVAL_MS;
  size_t held = m->holding ? 1 : 0;
  return remotes_waiting(m->set->remotes, m->host) > held ? BUSY_INTERVAL_MS : INTERVAL_MS;
}

// Waits until it is time to ask again. What decides about the interval changes meanwhile: who begins to wait for a
// member signals `look`, calls are looked at now and then.
static bool wait_interval(struct operation *op, struct member *m) {
  int64_t asked = loop_now_ms(op->loop);
  struct error err;
  while (!m->look_now) {
    int64_t left = asked + interval_ms(m) - loop_now_ms(op->loop);
    if (left <= 0) break;
    bool timed_out;
    if (!event_wait_for(op, &m->look, left < BUSY_INTERVAL_MS ? left : BUSY_INTERVAL_MS, &timed_out, &err) &&
        !timed_out) {
      return false;
    }
  }
  return true;
}

static void watch_member(struct operation *op, void *arg) {
  struct member *m = arg;
  while (!m->set->closing && !m->gone) {
    m->look_now = false;
    ask(op, m);
    arena_reset(op->arena);
    if (!wait_interval(op, m)) break;
  }
  m->op = NULL;
  replica_set_unref(m->set);
}

struct replica_set *replica_set_watch(struct loop *l, struct remotes *r, const char *connection_string,
                                      struct error *err) {
  __attribute__((cleanup(arena_cleanup))) struct arena *a = arena_new();
  const char *name = "", **hosts = NULL;
  size_t n = 0;
  if (!replica_set_parse(a, connection_string, &name, &hosts, &n, err)) return NULL;
  size_t cap = 0;
  struct replica_set *s = array_grow(NULL, &cap, 1, sizeof *s);
  s->name = strdup(name);
  s->given = strdup(connection_string);
  s->loop = l;
  s->remotes = r;
  s->refs = 1;
  for (size_t i = 0; i < n; i++) add_member(s, hosts[i]);
  return s;
}

void replica_set_unwatch(struct replica_set *s) {
  if (!s) return;
  s->closing = true;
  for (struct member *m = s->members; m; m = m->next) end_watch(m);
  event_signal(&s->changed);
  replica_set_unref(s);
}

const char *replica_set_name(const struct replica_set *s) {
  return s->name;
}

const char *replica_set_string(const struct replica_set *s) {
  return s->current ? s->current : s->given;
}

const char *replica_set_primary(const struct replica_set *s) {
  for (const struct member *m = s->members; m; m = m->next) {
    if (m->kind == KIND_PRIMARY && !m->gone) return m->host;
  }
  return NULL;
}

bool replica_set_answers(const struct replica_set *s) {
  for (const struct member *m = s->members; m; m = m->next) {
    if (!m->gone && (m->kind == KIND_PRIMARY || m->kind == KIND_SECONDARY)) return true;
  }
  return false;
}

void replica_set_report(struct replica_set *s, const char *host, const struct error *err) {
  struct member *m = find_member(s, host);
  if (!m || !(error_is_network(err->code) || error_is_not_primary(err->code) || err->code == ERR_ShutdownInProgress ||
              err->code == ERR_InterruptedAtShutdown)) {
    return;
  }
  m->kind = KIND_UNKNOWN;
  if (error_is_network(err->code)) remotes_forget(s->remotes, host);
  for (struct member *each = s->members; each; each = each->next) member_look(each);
}
