// From a message to a command's handler and back to a reply; metrics; the list of commands.
#include <stdlib.h>
#include <string.h>

#include "common/base/buf.h"
#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/base/map.h"
#include "common/bson/doc.h"
#include "common/net/known_fields.h"
#include "common/net/request.h"
#include "proto/reply.h"

enum {
  SLOW_US = 100 * 1000,                        // commands that take longer are logged
  REPLY_MAX_BYTES = DOC_MAX_BYTES + 16 * 1024, // what clients accept for a reply
};

struct entry {
  const struct command *command;
  const struct known_fields *fields; // NULL = any
  struct command_metrics metrics;
};

struct dispatcher {
  struct dispatch_hooks hooks;
  struct map *by_name; // struct entry *, under the name and under the alias
  struct entry *entries;
  size_t n_entries;
  int64_t unknown; // commands that there are none of
};

static void add_command(struct dispatcher *d, const struct command *c) {
  if (map_gets(d->by_name, c->name)) return; // an earlier table replaces this one
  struct entry *e = &d->entries[d->n_entries++];
  e->command = c;
  e->fields = known_fields_of(c->name);
  (void)map_puts(d->by_name, c->name, e);
  if (c->alias && !map_gets(d->by_name, c->alias)) (void)map_puts(d->by_name, c->alias, e);
}

struct dispatcher *dispatcher_new(const struct command *const *tables, const struct dispatch_hooks *hooks) {
  size_t cap = 0, n = 0;
  struct dispatcher *d = array_grow(NULL, &cap, 1, sizeof *d);
  d->hooks = *hooks;
  d->by_name = map_new();
  for (const struct command *const *t = tables; *t; t++) {
    for (const struct command *c = *t; c->name; c++) n++;
  }
  cap = 0;
  d->entries = array_grow(NULL, &cap, n + 1, sizeof *d->entries);
  for (const struct command *const *t = tables; *t; t++) {
    for (const struct command *c = *t; c->name; c++) add_command(d, c);
  }
  return d;
}

void dispatcher_free(struct dispatcher *d) {
  if (!d) return;
  map_free(d->by_name, NULL);
  free(d->entries);
  free(d);
}

// --- running a command ---

static bool check_transaction(const struct request *r, struct error *err) {
  if (!r->autocommit_given) return true;
  return error_set(err, ERR_OperationNotSupportedInTransaction,
                   "Multi-document transactions are not supported by this server (command '%s' with autocommit or "
                   "startTransaction)",
                   r->name);
}

// What the command's flags ask for.
static bool check_flags(const struct request *r, struct error *err) {
  unsigned flags = r->command->flags;
  if (r->message->opcode == OP_QUERY && !(flags & CMD_OP_QUERY)) {
    return error_set(err, ERR_UnsupportedOpQueryCommand,
                     "Unsupported OP_QUERY command: %s. The client driver may require an upgrade", r->name);
  }
  if (!request_check_concerns(r, err)) return false;
  if (flags & CMD_ADMIN_ONLY && strcmp(r->db, "admin") != 0) {
    return error_set(err, ERR_Unauthorized, "%s may only be run against the admin database.", r->name);
  }
  return true;
}

static bool run(struct dispatcher *d, struct request *r, struct entry *e, bson_t *reply, struct error *err) {
  r->command = e->command;
  r->op->what = e->command->name;
  if (!check_flags(r, err) || !request_check_api(r, err) || !known_fields_check(e->fields, r, err)) return false;
  if (d->hooks.admit && !d->hooks.admit(d->hooks.daemon, r, err)) return false;
  if (r->max_time_ms) op_deadline_in(r->op, r->max_time_ms, ERR_MaxTimeMSExpired);
  if (!e->command->run(r, reply, err)) return false;
  if (reply->len <= REPLY_MAX_BYTES) return true;
  return error_set(err, ERR_BSONObjectTooLarge, "The reply of %s has %u bytes, more than the limit of %d",
                   e->command->name, reply->len, REPLY_MAX_BYTES);
}

static bool parse_and_run(struct dispatcher *d, struct request *r, const struct message *m, const char *db,
                          bson_t *reply, struct error *err) {
  if (!request_parse(r, m, db, err) || !check_transaction(r, err)) return false;
  struct entry *e = map_gets(d->by_name, r->name);
  if (!e) {
    d->unknown++;
    return error_set(err, ERR_CommandNotFound, "no such command: '%s'", r->name);
  }
  bool ok = run(d, r, e, reply, err);
  if (!(e->command->flags & CMD_NO_METRICS)) {
    e->metrics.total++;
    e->metrics.failed += !ok;
  }
  return ok;
}

// A hello that waits for a change is not slow.
static bool waits_on_purpose(const struct request *r) {
  return r->command->flags & CMD_OP_QUERY && doc_has(r->body, "maxAwaitTimeMS");
}

static void log_slow(const struct request *r, int64_t us, const struct error *err) {
  if (err->code) {
    log_info("COMMAND", "Slow query", "type:s ns:s command:s durationMillis:l error:e", "command", r->ns, r->name,
             us / 1000, err);
  } else {
    log_info("COMMAND", "Slow query", "type:s ns:s command:s durationMillis:l", "command", r->ns, r->name, us / 1000);
  }
}

// Everything between the message and the finished reply. err->code stays 0 when the command went well.
static void serve(struct dispatcher *d, struct request *r, const struct message *m, const char *db, bson_t *reply,
                  struct error *err) {
  int64_t from = clock_mono_us();
  const char *what = r->op->what;
  err->code = 0;
  if (parse_and_run(d, r, m, db, reply, err)) {
    err->code = 0;
    if (!doc_has(reply, "ok")) reply_ok(reply);
  } else {
    if (!err->code) (void)error_set(err, ERR_InternalError, "%s failed without a reason", r->name);
    reply_error(reply, err);
  }
  if (d->hooks.finish) d->hooks.finish(d->hooks.daemon, r, reply, err->code ? err : NULL);
  r->op->what = what;
  int64_t us = clock_mono_us() - from;
  if (us >= SLOW_US && r->command && !waits_on_purpose(r)) log_slow(r, us, err);
}

// --- answers that go on by themselves ---

static bool wants_stream(const struct request *r, const struct message *m, const struct connection *conn) {
  return conn && m->opcode == OP_MSG && m->flags & MSG_EXHAUST_ALLOWED && r->command && waits_on_purpose(r);
}

// The same request with the topologyVersion that was answered last.
static void next_request(const bson_t *body, const bson_t *reply, bson_t *out) {
  bson_iter_t version;
  bson_init(out);
  bson_copy_to_excluding_noinit(body, out, "topologyVersion", NULL);
  if (doc_get(reply, "topologyVersion", &version)) doc_append_iter(out, NULL, &version);
}

// Answers the request again and again, each time when there is something new or its time has passed, until the client
// has gone. A failure ends the connection, which clients take as the end of the stream. *reply: the first answer; empty
// afterwards.
static void stream(struct dispatcher *d, struct operation *op, struct connection *conn, const struct message *m,
                   bson_t *reply) {
  struct arena *outer = op->arena, *round __attribute__((cleanup(arena_cleanup))) = arena_new();
  int32_t last = connection_send(conn, m->request_id, MSG_MORE_TO_COME, reply);
  op->arena = round;
  for (bool ok = true; ok && connection_alive(conn);) {
    bson_t body;
    next_request(&m->body, reply, &body);
    bson_reinit(reply);
    struct request r = {.op = op, .daemon = d->hooks.daemon, .conn = conn};
    struct message again = {.opcode = OP_MSG, .flags = m->flags, .request_id = last};
    struct error err;
    (void)bson_init_static(&again.body, bson_get_data(&body), body.len);
    serve(d, &r, &again, NULL, reply, &err);
    ok = !err.code;
    if (ok) last = connection_send(conn, last, MSG_MORE_TO_COME, reply);
    bson_destroy(&body);
    arena_reset(round);
  }
  op->arena = outer;
  bson_reinit(reply);
  connection_close(conn);
}

void dispatch(struct dispatcher *d, struct operation *op, struct connection *conn, const struct message *m,
              bson_t *reply) {
  struct request r = {.op = op, .daemon = d->hooks.daemon, .conn = conn};
  struct error err;
  serve(d, &r, m, NULL, reply, &err);
  if (m->opcode == OP_MSG && m->flags & MSG_MORE_TO_COME)
    bson_reinit(reply);
  else if (!err.code && wants_stream(&r, m, conn))
    stream(d, op, conn, m, reply);
}

bool dispatch_local(struct dispatcher *d, struct operation *op, const char *db, const bson_t *body, bson_t *reply,
                    struct error *err) {
  struct request r = {.op = op, .daemon = d->hooks.daemon};
  struct message m = {.opcode = OP_MSG};
  struct error own;
  (void)bson_init_static(&m.body, bson_get_data(body), body->len);
  serve(d, &r, &m, db, reply, &own);
  if (!own.code) return reply_check(reply, op->arena, err);
  if (err) error_copy(err, &own, op->arena);
  return false;
}

// --- what there is and how often it ran ---

void dispatcher_metrics(const struct dispatcher *d, bson_t *out) {
  bson_append_int64(out, "<UNKNOWN>", -1, d->unknown);
  for (size_t i = 0; i < d->n_entries; i++) {
    const struct entry *e = &d->entries[i];
    bson_t one;
    BSON_APPEND_DOCUMENT_BEGIN(out, e->command->name, &one);
    BSON_APPEND_INT64(&one, "failed", e->metrics.failed);
    BSON_APPEND_INT64(&one, "total", e->metrics.total);
    bson_append_document_end(out, &one);
  }
}

void dispatcher_list(const struct dispatcher *d, bson_t *out) {
  bson_t commands, one;
  BSON_APPEND_DOCUMENT_BEGIN(out, "commands", &commands);
  for (size_t i = 0; i < d->n_entries; i++) {
    const struct command *c = d->entries[i].command;
    if (c->flags & CMD_INTERNAL) continue;
    BSON_APPEND_DOCUMENT_BEGIN(&commands, c->name, &one);
    BSON_APPEND_UTF8(&one, "help", c->help ? c->help : "");
    BSON_APPEND_BOOL(&one, "requiresAuth", false);
    BSON_APPEND_BOOL(&one, "secondaryOk", c->flags & CMD_READ);
    BSON_APPEND_BOOL(&one, "adminOnly", c->flags & CMD_ADMIN_ONLY);
    bson_append_document_end(&commands, &one);
  }
  bson_append_document_end(out, &commands);
}
