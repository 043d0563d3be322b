// A command is a declared thing: one line in a daemon's table, one function.
//
// Dispatch (parsing of the envelope, the checks that flags ask for, metrics, the reply's ok/error form, gossip) is the
// same in all three daemons and lives here.
#ifndef SHARDLET_NET_COMMAND_H
#define SHARDLET_NET_COMMAND_H

#include "common/net/operation.h"
#include "common/net/server.h"
#include "proto/message.h"

enum command_flags {
  CMD_READ = 1,       // may run on a secondary when the read preference allows it
  CMD_WRITE = 2,      // needs a primary
  CMD_ADMIN_ONLY = 4, // only on the admin database: else Unauthorized 13
  CMD_ANY_STATE = 8,  // before replSetInitiate, in RECOVERING, while shutting down
  CMD_NO_METRICS = 16,
  CMD_INTERNAL = 32,  // between daemons; left out of listCommands
  CMD_VERSIONED = 64, // carries shardVersion/databaseVersion, checked by the handler through the node's hooks
  CMD_OP_QUERY = 128, // allowed in an OP_QUERY
};

enum read_mode { READ_PRIMARY, READ_PRIMARY_PREFERRED, READ_SECONDARY, READ_SECONDARY_PREFERRED, READ_NEAREST };
enum read_level { LEVEL_LOCAL, LEVEL_AVAILABLE, LEVEL_MAJORITY, LEVEL_LINEARIZABLE, LEVEL_SNAPSHOT };

// The envelope of one command, parsed once. Everything points into the message or the operation's arena.
struct request {
  // Documents of the envelope: views that are filled when their has_... below is set.
  bson_t lsid_doc, read_preference, write_concern, shard_version, database_version;

  struct operation *op;
  void *daemon;            // struct node *, struct router *...: the server's ctx
  struct connection *conn; // NULL for commands that a daemon gives itself
  const struct message *message;
  const struct command *command;
  const bson_t *body; // the kind-0 document
  const char *name;   // as sent
  const char *db;
  const char *coll;  // the first field's value when it is a string, else NULL
  bson_iter_t first; // the first field itself
  const char *ns;    // "db.coll" when coll is set, else NULL

  bool has_lsid, has_txn_number, has_read_preference, has_read_concern, has_write_concern;
  bool has_shard_version, has_database_version;
  bool has_api_field;    // apiVersion, apiStrict or apiDeprecationErrors: dispatch checks them
  bool autocommit_given; // part of a transaction: dispatch refuses it, so handlers never see one
  uint8_t lsid[16];
  int64_t txn_number;
  enum read_mode read_mode;
  enum read_level read_level;
  bool has_read_level; // it was given, not the default
  uint64_t after_cluster_time;
  int64_t max_time_ms;   // 0 = none
  const bson_t *comment; // {comment: <any value>}; NULL = none

  uint64_t operation_time; // a handler's to set: what the daemon's finish hook answers as operationTime; 0 = unknown
};

struct command {
  const char *name, *alias; // alias: a second spelling or NULL ("isMaster"); command names are case-sensitive
  unsigned flags;
  // Appends its fields to *reply; true: ok 1 is added. false: the reply is replaced by err. A handler that answers ok:0
  // with a form of its own (errmsg without code) appends that itself and returns true.
  bool (*run)(struct request *r, bson_t *reply, struct error *err);
  const char *help; // one line
};

struct command_metrics {
  int64_t total, failed;
};

struct dispatcher; // a daemon's table, metrics and hooks

struct dispatch_hooks {
  void *daemon;
  // Before the handler: may the command run now (member state, shutdown)? NULL = always.
  bool (*admit)(void *daemon, struct request *r, struct error *err);
  // After the handler, on every reply: $clusterTime, operationTime, errorLabels. err is NULL on success. When the
  // envelope is refused, r->command, name, db and ns may be NULL.
  void (*finish)(void *daemon, struct request *r, bson_t *reply, const struct error *err);
};

struct dispatcher *
dispatcher_new(const struct command *const *tables,
               const struct dispatch_hooks *hooks); // tables end with NULL; each table ends with name == NULL
void dispatcher_free(struct dispatcher *d);

// The server's handler: parses the envelope, runs the command, builds the reply. No reply for moreToCome requests.
void dispatch(struct dispatcher *d, struct operation *op, struct connection *conn, const struct message *m,
              bson_t *reply);
// Runs a command inside this process, as if it came from a client: for explain, bulkWrite and tests.
bool dispatch_local(struct dispatcher *d, struct operation *op, const char *db, const bson_t *body, bson_t *reply,
                    struct error *err);

void dispatcher_metrics(const struct dispatcher *d, bson_t *out); // metrics.commands of serverStatus
void dispatcher_list(const struct dispatcher *d, bson_t *out);    // listCommands

// Helpers for handlers. Unknown fields were refused before (known_fields.h), but for commands that take any.
// $readPreference's mode; FailedToParse.
bool read_mode_parse(const bson_t *preference, enum read_mode *mode, struct error *err);
// What a $readPreference must not say with this mode: tags of a primary, less than 90 seconds of staleness (160).
bool read_preference_check(enum read_mode mode, const bson_t *preference, struct error *err);
// The types and ranges of a writeConcern's fields: FailedToParse, TypeMismatch.
bool request_check_write_concern(const bson_t *concern, struct error *err);
// writeConcern: {w: "majority", wtimeout: 60000}, for commands between daemons.
void append_majority(bson_t *body);
bool request_needs_collection(const struct request *r,
                              struct error *err); // coll given and a valid name: InvalidNamespace 73
bool request_required_doc(const struct request *r, const char *field, bson_t *out,
                          struct error *err); // 40414 when missing, 14 when neither document nor array
bool request_required_str(const struct request *r, const char *field, const char **out, struct error *err);
bool namespace_valid(const char *ns, struct error *err);
const char *namespace_database(struct arena *a, const char *ns); // "db" of "db.coll"; also of "db" alone
// The documents of an array field or of the kind-1 section with this name: the same command in both forms.
struct documents {
  bson_t array;
  const struct sequence *sequence;
  size_t at;
  bson_iter_t it;
  size_t count;
};
// At most 100,000 (InvalidLength); that there is one at all is the handler's to check.
bool request_documents(const struct request *r, const char *field, struct documents *out, struct error *err);
bool documents_next(struct documents *d, bson_t *doc);

#endif
