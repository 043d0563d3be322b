// --initiate. See initiation.h.
//
// Who stands first is found by asking the addresses of the list who answers there, not by comparing names: a host may
// have several. Two lists that differ in their first member would found two sets, so members tell each other their
// lists.
#include "common/node/initiation.h"

#include <string.h>

#include "common/base/buf.h"
#include "common/base/log.h"
#include "common/bson/doc.h"
#include "common/node/internal.h"
#include "common/repl/config.h"

enum {
  ASK_MS = 2000,
  FIRST_PAUSE_MS = 25, // daemons that are started together are there within moments
  LONG_PAUSE_MS = 500,
  SAY_AGAIN_MS = 60000,
  FORGOTTEN_MS = 10000, // a set that is being founded has told its members by then
};

static const char forgotten_text[] = "it is in a set that does not take this member in: one that is new, or whose data "
                                     "directory was emptied, has to be added there (rs.add)";

struct initiation {
  struct node *node;
  const char *const *hosts;
  size_t n;
};

// What a round of asking found.
struct round {
  size_t self; // place in the list of this member
  bool found_self;
  const char *in_set;  // a member that is in the set already; NULL = none
  const char *silent;  // hosts that do not answer; "" = all answer
  const char *why;     // what was said when they were asked
  struct error reason; // why these members cannot make a set; code 0 = nothing is known against it
};

static void append_hosts(bson_t *to, const char *name, const struct initiation *i) {
  bson_t list;
  bson_append_array_begin(to, name, -1, &list);
  for (size_t k = 0; k < i->n; k++) {
    char text[16];
    const char *key;
    size_t len = bson_uint32_to_string((uint32_t)k, &key, text, sizeof text);
    bson_append_utf8(&list, key, (int)len, i->hosts[k], -1);
  }
  bson_append_array_end(to, &list);
}

void initiation_describe(const struct initiation *i, bson_t *reply) {
  if (i) append_hosts(reply, "initiate", i);
}

static const bson_t *initial_config(struct arena *a, const struct initiation *i) {
  bson_t *config = arena_bson(a), members, member;
  BSON_APPEND_UTF8(config, "_id", repl_set_name(i->node->repl));
  BSON_APPEND_INT32(config, "version", 1);
  if (!strcmp(i->node->program, "configsvr")) BSON_APPEND_BOOL(config, "configsvr", true);
  BSON_APPEND_ARRAY_BEGIN(config, "members", &members);
  for (size_t k = 0; k < i->n; k++) {
    char text[16];
    const char *key;
    bson_uint32_to_string((uint32_t)k, &key, text, sizeof text);
    BSON_APPEND_DOCUMENT_BEGIN(&members, key, &member);
    BSON_APPEND_INT32(&member, "_id", (int32_t)k);
    BSON_APPEND_UTF8(&member, "host", i->hosts[k]);
    bson_append_document_end(&members, &member);
  }
  bson_append_array_end(config, &members);
  return config;
}

// --- asking ---

static const char *hosts_text(struct arena *a, const bson_t *doc) {
  bson_t list;
  bson_iter_t it;
  const char *text = "";
  if (!doc_doc(doc, "initiate", &list) || !bson_iter_init(&it, &list)) return text;
  while (bson_iter_next(&it)) {
    if (BSON_ITER_HOLDS_UTF8(&it)) text = arena_printf(a, "%s%s%s", text, *text ? "," : "", bson_iter_utf8(&it, NULL));
  }
  return text;
}

// One member's answer, beside what this member says of itself.
static void take_answer(struct arena *a, size_t k, const char *host, const bson_t *own, const bson_t *reply,
                        struct round *found) {
  const char *set = doc_str(reply, "set", ""), *own_set = doc_str(own, "set", "");
  const char *list = hosts_text(a, reply), *own_list = hosts_text(a, own);
  if (doc_i64(reply, "instance", 0) == doc_i64(own, "instance", 0)) {
    found->self = k;
    found->found_self = true;
  } else if (strcmp(set, own_set) != 0) {
    error_set(&found->reason, ERR_InvalidReplicaSetConfig, "%s was started for the replica set \"%s\", not \"%s\"",
              host, set, own_set);
  } else if (*list && strcmp(list, own_list) != 0) {
    error_set(&found->reason, ERR_InvalidReplicaSetConfig,
              "%s was started with --initiate %s, this member with --initiate %s: give all members the same list", host,
              list, own_list);
  } else if (doc_bool(reply, "initiated", false)) {
    found->in_set = host;
  }
}

static void ask_all(struct operation *op, const struct initiation *i, struct round *found) {
  bson_t *own = arena_bson(op->arena), *body = arena_bson(op->arena);
  repl_identity(i->node->repl, own);
  initiation_describe(i, own);
  BSON_APPEND_INT32(body, "_isSelf", 1);
  for (size_t k = 0; k < i->n; k++) {
    struct remote_command cmd = {.db = "admin", .body = body, .timeout_ms = ASK_MS};
    const bson_t *reply;
    struct error err = {0};
    if (remote_call(op, i->node->remotes, i->hosts[k], &cmd, &reply, &err)) {
      take_answer(op->arena, k, i->hosts[k], own, reply, found);
    } else {
      found->silent = arena_printf(op->arena, "%s%s%s", found->silent, *found->silent ? "," : "", i->hosts[k]);
      found->why = arena_printf(op->arena, "%s%s%s", found->why, *found->why ? "; " : "", err.message);
    }
  }
}

// --- saying ---

struct said { // the last that was logged
  const char *what;
  struct buf about;
  int64_t at_ms;
  int64_t found_set_ms; // since when a member is known to be in the set; 0 = none is
};

static void free_said(struct said *s) {
  buf_free(&s->about);
}

// What is still so is said again only after a minute. about: whom or what; detail: more about it, which may vary.
static void say(struct operation *op, struct said *last, enum log_severity severity, const char *what,
                const char *about, const char *detail) {
  int64_t now = loop_now_ms(op->loop);
  if (last->what == what && !strcmp(buf_str(&last->about), about) && now - last->at_ms < SAY_AGAIN_MS) return;
  last->what = what;
  last->at_ms = now;
  buf_clear(&last->about);
  buf_printf(&last->about, "%s", about);
  if (detail)
    log_event(severity, "REPL", what, "members:s detail:s", about, detail);
  else
    log_event(severity, "REPL", what, "reason:s", about);
}

// --- the rounds ---

// Asks everybody and does what can be done. Whose turn it is: only the first one's, and only when all answer.
static void take_turn(struct operation *op, const struct initiation *i, struct said *said) {
  struct round found = {.silent = "", .why = ""};
  struct error err = {0};
  ask_all(op, i, &found);
  if (repl_config(i->node->repl)) return; // somebody was quicker
  if (found.reason.code) {
    say(op, said, LOG_ERROR, "The replica set cannot be initiated by --initiate", found.reason.message, NULL);
  } else if (found.in_set) {
    if (!said->found_set_ms) said->found_set_ms = loop_now_ms(op->loop);
    bool forgotten = loop_now_ms(op->loop) - said->found_set_ms > FORGOTTEN_MS;
    say(op, said, LOG_INFO, "Waiting to be taken into the replica set", found.in_set,
        forgotten ? forgotten_text : "it is in a set already");
  } else if (*found.silent) {
    say(op, said, LOG_INFO, "Waiting for members of the replica set that is to be initiated", found.silent, found.why);
  } else if (!found.found_self) {
    say(op, said, LOG_ERROR, "The replica set cannot be initiated by --initiate",
        arena_printf(op->arena, "this member (%s) is none of those listed", i->node->host_port), NULL);
  } else if (found.self > 0) {
    say(op, said, LOG_INFO, "Waiting for the first member of the list to initiate the replica set", i->hosts[0],
        "all members answer");
  } else if (!repl_initiate(op, i->node->repl, initial_config(op->arena, i), &err) &&
             err.code != ERR_AlreadyInitialized) {
    say(op, said, LOG_WARN, "Could not initiate the replica set yet", err.message, NULL);
  }
}

static void run(struct operation *op, void *arg) {
  struct initiation *i = arg;
  __attribute__((cleanup(free_said))) struct said said = {0};
  int64_t pause_ms = FIRST_PAUSE_MS;
  while (!repl_config(i->node->repl)) {
    take_turn(op, i, &said);
    arena_reset(op->arena);
    if (repl_config(i->node->repl) || !op_sleep(op, pause_ms, NULL)) return;
    if (pause_ms < LONG_PAUSE_MS) pause_ms += pause_ms / 4;
  }
}

// --- a set that exists ---

static bool listed(const struct initiation *i, const char *host) {
  size_t k = 0;
  while (k < i->n && strcmp(i->hosts[k], host) != 0) k++;
  return k < i->n;
}

// The list of the first start may differ from what rs.add() and rs.remove() made of the set, or be a mistake.
static void compare(const struct initiation *i) {
  const bson_t *config = repl_config(i->node->repl);
  struct config_walk walk = {0};
  struct config_member m;
  size_t n = 0;
  bool same = true;
  for (; config_next_member(config, &walk, &m); n++) same &= listed(i, m.host);
  if (same && n == i->n) return;
  log_warn("REPL",
           "--initiate lists other members than the replica set has; it is for the first start only, the set stays as "
           "it is: use rs.add() and rs.remove()",
           "config:b", config);
}

struct initiation *initiation_start(struct node *n, const char *const *hosts, size_t n_hosts) {
  struct initiation *i = arena_zalloc(n->own->arena, sizeof *i);
  *i = (struct initiation){.node = n, .hosts = hosts, .n = n_hosts};
  if (repl_config(n->repl))
    compare(i);
  else
    node_background(n, "initiate", run, i);
  return i;
}
