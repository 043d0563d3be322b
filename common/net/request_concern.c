// How an operation wants to read and to be acknowledged: readConcern, writeConcern, $readPreference, as every command
// may carry them. What they ask for is done by who executes the command; here it is only checked that it can be meant.
#include <string.h>

#include "common/bson/doc.h"
#include "common/net/request.h"

enum {
  NOT_A_RETRYABLE_WRITE_COMMAND = 50768, // an error code
  MOST_MEMBERS = 50,                     // what w may be
  LEAST_STALENESS_SECONDS = 90,
};

static bool wrong_type(struct error *err, const char *field, const char *expected) {
  return error_set(err, ERR_TypeMismatch, "BSON field '%s' is the wrong type, expected type '%s'", field, expected);
}

// --- read concern ---

static bool check_after_time(const struct request *r, struct error *err) {
  if (!r->after_cluster_time || r->read_level == LEVEL_LOCAL || r->read_level == LEVEL_MAJORITY ||
      r->read_level == LEVEL_SNAPSHOT) {
    return true;
  }
  return error_set(err, ERR_InvalidOptions,
                   "afterClusterTime field can be set only if level is equal to majority, local, or snapshot");
}

static bool take_level(struct request *r, const bson_iter_t *it, struct error *err) {
  static const char *const names[] = {"local", "available", "majority", "linearizable", "snapshot"};
  if (!BSON_ITER_HOLDS_UTF8(it)) return wrong_type(err, "readConcern.level", "string");
  const char *name = bson_iter_utf8(it, NULL);
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    if (strcmp(name, names[i]) != 0) continue;
    r->read_level = (enum read_level)i;
    return true;
  }
  return error_set(err, ERR_BadValue, "Enumeration value '%s' for field 'readConcern.level' is not a valid value.",
                   name);
}

bool request_take_read_concern(struct request *r, const bson_t *concern, struct error *err) {
  bson_iter_t it;
  if (!bson_iter_init(&it, concern)) return true;
  while (bson_iter_next(&it)) {
    const char *name = bson_iter_key(&it);
    if (!strcmp(name, "level")) {
      if (!take_level(r, &it, err)) return false;
      r->has_read_level = true;
    } else if (!strcmp(name, "afterClusterTime")) {
      if (!BSON_ITER_HOLDS_TIMESTAMP(&it)) return wrong_type(err, "readConcern.afterClusterTime", "timestamp");
      if (!doc_timestamp(concern, name, &r->after_cluster_time) || !r->after_cluster_time)
        return error_set(err, ERR_InvalidOptions, "afterClusterTime cannot be a null timestamp");
    } else if (!strcmp(name, "atClusterTime")) {
      return error_set(err, ERR_InvalidOptions,
                       "readConcern.atClusterTime is not supported: it goes with read concern level 'snapshot', which "
                       "this server does not have");
    }
  }
  return check_after_time(r, err);
}

// Commands that a txnNumber outside of a transaction may be given to.
static bool is_retryable(const char *command) {
  static const char *const names[] = {"insert", "update", "delete", "findAndModify", "bulkWrite"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    if (!strcmp(command, names[i])) return true;
  }
  return false;
}

bool request_check_concerns(const struct request *r, struct error *err) {
  static const char *const levels[] = {"local", "available", "majority", "linearizable", "snapshot"};
  if (r->command->flags & CMD_INTERNAL) return true;
  if (r->has_txn_number && !r->autocommit_given && !is_retryable(r->command->name)) {
    return error_set(err, NOT_A_RETRYABLE_WRITE_COMMAND,
                     "txnNumber may only be provided for multi-document transactions and retryable write commands. "
                     "autocommit:false was not provided, and %s is not a retryable write command.",
                     r->command->name);
  }
  if (!(r->command->flags & CMD_WRITE) || r->read_level == LEVEL_LOCAL) return true;
  return error_set(err, ERR_InvalidOptions,
                   "Command %s does not support { readConcern: { level: \"%s\" } } :: caused by :: read concern not "
                   "supported",
                   r->command->name, levels[r->read_level]);
}

// --- write concern ---

static bool check_w(const bson_iter_t *it, struct error *err) {
  bson_iter_t tag;
  if (BSON_ITER_HOLDS_UTF8(it)) return true;
  if (iter_is_number(it)) {
    int64_t n = iter_i64(it);
    if (n >= 0 && n <= MOST_MEMBERS) return true;
    return error_set(err, ERR_FailedToParse, "w has to be a non-negative number and not greater than %d; found: %lld",
                     MOST_MEMBERS, (long long)n);
  }
  if (!BSON_ITER_HOLDS_DOCUMENT(it) || !bson_iter_recurse(it, &tag))
    return error_set(err, ERR_FailedToParse, "w has to be a number, string, or object");
  bool any = false;
  for (; bson_iter_next(&tag); any = true) {
    if (!iter_is_number(&tag))
      return error_set(err, ERR_FailedToParse, "tags must be a single level document with only number values");
  }
  return any || error_set(err, ERR_FailedToParse, "tagged write concern requires tags");
}

bool request_check_write_concern(const bson_t *concern, struct error *err) {
  bool fsync = false, journal = false;
  bson_iter_t it;
  if (!bson_iter_init(&it, concern)) return true;
  while (bson_iter_next(&it)) {
    const char *name = bson_iter_key(&it);
    bool *flag = !strcmp(name, "j") ? &journal : !strcmp(name, "fsync") ? &fsync : NULL;
    if (!strcmp(name, "w") && !check_w(&it, err)) return false;
    if (!strcmp(name, "wtimeout") && !iter_is_number(&it)) return wrong_type(err, "writeConcern.wtimeout", "long");
    if (!flag) continue;
    if (!BSON_ITER_HOLDS_BOOL(&it) && !iter_is_number(&it))
      return wrong_type(err, flag == &journal ? "writeConcern.j" : "writeConcern.fsync", "bool");
    *flag = bson_iter_as_bool(&it);
  }
  return !fsync || !journal || error_set(err, ERR_FailedToParse, "fsync and j options cannot be used together");
}

void append_majority(bson_t *body) {
  enum { WTIMEOUT_MS = 60000 };
  bson_t concern;
  BSON_APPEND_DOCUMENT_BEGIN(body, "writeConcern", &concern);
  BSON_APPEND_UTF8(&concern, "w", "majority");
  BSON_APPEND_INT32(&concern, "wtimeout", WTIMEOUT_MS);
  bson_append_document_end(body, &concern);
}

// --- read preference ---

bool read_mode_parse(const bson_t *preference, enum read_mode *mode, struct error *err) {
  static const char *const names[] = {"primary", "primaryPreferred", "secondary", "secondaryPreferred", "nearest"};
  const char *name = doc_str(preference, "mode", NULL);
  if (!name) return error_set(err, ERR_FailedToParse, "$readPreference needs a string in 'mode'");
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    if (strcmp(name, names[i]) != 0) continue;
    *mode = (enum read_mode)i;
    return true;
  }
  return error_set(err, ERR_FailedToParse,
                   "Could not parse $readPreference mode '%s'. Only the modes 'primary', 'primaryPreferred', "
                   "'secondary', 'secondaryPreferred', and 'nearest' are supported.",
                   name);
}

static bool check_tags(enum read_mode mode, const bson_iter_t *it, struct error *err) {
  bson_iter_t set;
  if (!BSON_ITER_HOLDS_ARRAY(it) || !bson_iter_recurse(it, &set))
    return error_set(err, ERR_TypeMismatch, "$readPreference.tags must be an array of documents");
  for (bool first = true; bson_iter_next(&set); first = false) {
    bson_iter_t tag;
    if (!BSON_ITER_HOLDS_DOCUMENT(&set) || !bson_iter_recurse(&set, &tag))
      return error_set(err, ERR_TypeMismatch, "$readPreference.tags must be an array of documents");
    if (mode == READ_PRIMARY && (!first || bson_iter_next(&tag)))
      return error_set(err, ERR_BadValue, "Only empty tags are allowed with primary read preference");
  }
  return true;
}

// maxStalenessSeconds: 0 and, as the drivers have it, -1 mean none.
static bool check_staleness(enum read_mode mode, const bson_iter_t *it, struct error *err) {
  if (!iter_is_number(it)) return wrong_type(err, "$readPreference.maxStalenessSeconds", "number");
  int64_t seconds = iter_i64(it);
  if (seconds == 0 || seconds == -1) return true;
  if (mode == READ_PRIMARY)
    return error_set(err, ERR_BadValue, "mode: \"primary\" cannot be used with maxStalenessSeconds");
  if (seconds < 0) return error_set(err, ERR_BadValue, "maxStalenessSeconds must be a non-negative integer");
  return seconds >= LEAST_STALENESS_SECONDS ||
         error_set(err, ERR_MaxStalenessOutOfRange, "maxStalenessSeconds value can not be less than %d",
                   LEAST_STALENESS_SECONDS);
}

bool read_preference_check(enum read_mode mode, const bson_t *preference, struct error *err) {
  bson_iter_t it;
  if (doc_get(preference, "tags", &it) && !check_tags(mode, &it, err)) return false;
  return !doc_get(preference, "maxStalenessSeconds", &it) || check_staleness(mode, &it, err);
}
