// The envelope of a command: what every command may carry besides its own fields, read in one pass.
#include "common/net/request.h"

#include <string.h>

#include "common/bson/doc.h"

enum { QUERY_SECONDARY_OK = 4 };

// A document field of the envelope. Everything else is a TypeMismatch.
static bool take_doc(const bson_iter_t *it, bool *has, bson_t *view, struct error *err) {
  if (!BSON_ITER_HOLDS_DOCUMENT(it)) {
    return error_set(err, ERR_TypeMismatch, "BSON field '%s' is the wrong type, expected type 'object'",
                     bson_iter_key(it));
  }
  iter_doc(view, it);
  *has = true;
  return true;
}

static bool take_lsid(struct request *r, const bson_iter_t *it, struct error *err) {
  if (!take_doc(it, &r->has_lsid, &r->lsid_doc, err)) return false;
  if (doc_uuid(&r->lsid_doc, "id", r->lsid)) return true;
  r->has_lsid = false;
  return doc_has(&r->lsid_doc, "id")
             ? error_set(err, ERR_TypeMismatch,
                         "BSON field 'lsid.id' is the wrong type, expected type 'binData' (UUID)")
             : error_set(err, 40414, "BSON field 'lsid.id' is missing but a required field");
}

static bool take_txn_number(struct request *r, const bson_iter_t *it, struct error *err) {
  if (!BSON_ITER_HOLDS_INT(it)) {
    return error_set(err, ERR_TypeMismatch, "BSON field 'txnNumber' is the wrong type, expected type 'long'");
  }
  r->txn_number = iter_i64(it);
  r->has_txn_number = true;
  return r->txn_number >= 0 || error_set(err, ERR_InvalidOptions, "txnNumber must not be negative");
}

static bool take_max_time(struct request *r, const bson_iter_t *it, struct error *err) {
  bson_iter_t copy = *it;
  int64_t ms;
  if (BSON_ITER_HOLDS_NULL(it)) return true;
  if (!iter_is_number(it)) {
    return error_set(err, ERR_TypeMismatch, "maxTimeMS must be a number");
  }
  if (!value_is_integral(bson_iter_value(&copy), &ms)) {
    return error_set(err, ERR_BadValue, "maxTimeMS has a fraction or is too large");
  }
  if (ms < 0 || ms > INT32_MAX) {
    return error_set(err, ERR_BadValue, "%lld value for maxTimeMS is out of range [0, %d]", (long long)ms, INT32_MAX);
  }
  r->max_time_ms = ms;
  return true;
}

static bool take_read_preference(struct request *r, const bson_iter_t *it, struct error *err) {
  return take_doc(it, &r->has_read_preference, &r->read_preference, err) &&
         read_mode_parse(&r->read_preference, &r->read_mode, err) &&
         read_preference_check(r->read_mode, &r->read_preference, err);
}

static bool take_read_concern(struct request *r, const bson_iter_t *it, struct error *err) {
  bson_t doc;
  return take_doc(it, &r->has_read_concern, &doc, err) && request_take_read_concern(r, &doc, err);
}

static bool take_write_concern(struct request *r, const bson_iter_t *it, struct error *err) {
  return take_doc(it, &r->has_write_concern, &r->write_concern, err) &&
         request_check_write_concern(&r->write_concern, err);
}

static bool take_comment(struct request *r, const bson_iter_t *it) {
  bson_t *comment = arena_bson(r->op->arena);
  doc_append_iter(comment, "comment", it);
  r->comment = comment;
  return true;
}

static bool take_db(struct request *r, const bson_iter_t *it, struct error *err) {
  if (!BSON_ITER_HOLDS_UTF8(it)) return error_set(err, ERR_TypeMismatch, "$db must be a string");
  uint32_t len;
  const char *db = bson_iter_utf8(it, &len);
  if (strlen(db) != len) {
    return error_set(err, ERR_InvalidNamespace, "namespaces cannot have embedded null characters");
  }
  if (!r->db) r->db = db;
  return true;
}

static bool take_field(struct request *r, const bson_iter_t *it, struct error *err) {
  const char *name = bson_iter_key(it);
  switch (name[0]) {
  case '$':
    if (!strcmp(name, "$db")) return take_db(r, it, err);
    if (!strcmp(name, "$readPreference")) return take_read_preference(r, it, err);
    return true;
  case 'l': return strcmp(name, "lsid") != 0 || take_lsid(r, it, err);
  case 't': return strcmp(name, "txnNumber") != 0 || take_txn_number(r, it, err);
  case 'a':
    if (!strcmp(name, "autocommit")) r->autocommit_given = true;
    if (!strncmp(name, "api", 3)) r->has_api_field = true;
    return true;
  case 'm': return strcmp(name, "maxTimeMS") != 0 || take_max_time(r, it, err);
  case 'r': return strcmp(name, "readConcern") != 0 || take_read_concern(r, it, err);
  case 'w': return strcmp(name, "writeConcern") != 0 || take_write_concern(r, it, err);
  case 's':
    if (!strcmp(name, "startTransaction")) r->autocommit_given = true;
    return strcmp(name, "shardVersion") != 0 || take_doc(it, &r->has_shard_version, &r->shard_version, err);
  case 'd':
    return strcmp(name, "databaseVersion") != 0 || take_doc(it, &r->has_database_version, &r->database_version, err);
  case 'c': return strcmp(name, "comment") != 0 || take_comment(r, it);
  default: return true;
  }
}

// The command's name and, when it is a string, the collection that it names.
static bool take_first(struct request *r, struct error *err) {
  if (!bson_iter_init(&r->first, r->body) || !bson_iter_next(&r->first)) {
    return error_set(err, ERR_CommandNotFound, "no such command: ''");
  }
  r->name = bson_iter_key(&r->first);
  if (!BSON_ITER_HOLDS_UTF8(&r->first)) return true;
  uint32_t len;
  const char *coll = bson_iter_utf8(&r->first, &len);
  if (strlen(coll) != len) {
    return error_set(err, ERR_InvalidNamespace, "namespaces cannot have embedded null characters");
  }
  r->coll = coll;
  return true;
}

// An OP_QUERY names its database in "db.$cmd", and may wrap the command in $query beside $readPreference.
static bool take_query(struct request *r, struct error *err) {
  const char *ns = r->message->query_ns, *dot = strchr(ns, '.');
  if (!dot || strcmp(dot, ".$cmd") != 0) {
    return error_set(
        err, ERR_UnsupportedOpQueryCommand,
        "Unsupported OP_QUERY on '%s': only commands are accepted. The client driver may require an upgrade", ns);
  }
  r->db = arena_strndup(r->op->arena, ns, (size_t)(dot - ns));
  if (r->message->flags & QUERY_SECONDARY_OK) r->read_mode = READ_SECONDARY_PREFERRED;
  bson_iter_t it;
  if (!doc_get(r->body, "$query", &it) || !BSON_ITER_HOLDS_DOCUMENT(&it)) return true;
  bson_t view;
  iter_doc(&view, &it);
  r->body = arena_bson_view(r->op->arena, bson_get_data(&view), view.len);
  return true;
}

// '$' is let through: what lies in a database named with it is for each command to refuse.
static bool database_check(const char *db, struct error *err) {
  enum { LONGEST = 63 };
  size_t len = strlen(db);
  if (len > 0 && len <= LONGEST && strcspn(db, "/\\. \"") == len) return true;
  return error_set(err, ERR_InvalidNamespace, "Invalid database name: '%s'", db);
}

bool request_parse(struct request *r, const struct message *m, const char *db, struct error *err) {
  r->message = m;
  r->body = &m->body;
  r->db = db;
  if (m->opcode == OP_QUERY && !take_query(r, err)) return false;
  if (!take_first(r, err)) return false;
  bson_iter_t it;
  (void)bson_iter_init(&it, r->body);
  while (bson_iter_next(&it)) {
    if (!take_field(r, &it, err)) return false;
  }
  if (!r->db) return error_set(err, 40571, "OP_MSG requests require a $db argument");
  if (!database_check(r->db, err)) return false;
  if (r->has_txn_number && !r->has_lsid) {
    return error_set(err, ERR_InvalidOptions, "Transaction number requires a session ID to also be specified");
  }
  if (r->coll) r->ns = arena_printf(r->op->arena, "%s.%s", r->db, r->coll);
  return true;
}
