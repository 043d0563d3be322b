// Which fields each command takes: of MongoDB 8.0's those that are supported here, and those that handlers refuse by
// name with the reason.
#include "common/net/known_fields.h"

#include <string.h>

#include "common/bson/doc.h"

enum { UNKNOWN_FIELD = 40415 };

struct known_fields {
  const char *command;
  const char *fields;           // besides the generic ones; words with a space between
  const char *statements;       // the list whose documents are checked too, or NULL
  const char *statement_fields; // what those take
};

// Any command may carry these.
static const char generic[] =
    "$db lsid $clusterTime txnNumber $readPreference readConcern writeConcern maxTimeMS comment shardVersion "
    "databaseVersion apiVersion apiStrict apiDeprecationErrors autocommit startTransaction clientOperationKey "
    "maxTimeMSOpOnly mayBypassWriteBlocking rawData $configTime $topologyTime $audit $client $queryOptions "
    "$replData $oplogQueryData";

static const struct known_fields commands[] = {
    {"find",
     "find filter projection sort hint skip limit batchSize ntoreturn singleBatch allowDiskUse min max "
     "returnKey showRecordId tailable awaitData oplogReplay collation noCursorTimeout let allowPartialResults "
     "term",
     NULL, NULL},
    {"aggregate",
     "aggregate pipeline explain allowDiskUse cursor bypassDocumentValidation collation hint let needsMerge "
     "fromMongos fromRouter",
     NULL, NULL},
    {"count", "count query limit skip hint fields collation queryOptions maxTimeMS", NULL, NULL},
    {"distinct", "distinct key query hint collation", NULL, NULL},
    {"insert", "insert documents ordered bypassDocumentValidation stmtId stmtIds bypassEmptyTsReplacement", NULL, NULL},
    {"update",
     "update updates ordered bypassDocumentValidation stmtId stmtIds let bypassEmptyTsReplacement "
     "allowShardKeyUpdatesWithoutFullShardKeyInQuery",
     "updates", "q u c arrayFilters multi upsert collation hint sort sampleId"},
    {"delete", "delete deletes ordered bypassDocumentValidation stmtId stmtIds let", "deletes",
     "q limit collation hint sampleId"},
    {"findAndModify",
     "findAndModify findandmodify query fields sort hint collation arrayFilters remove update upsert new "
     "bypassDocumentValidation stmtId let sampleId allowShardKeyUpdatesWithoutFullShardKeyInQuery",
     NULL, NULL},
    {"bulkWrite",
     "bulkWrite ops nsInfo ordered bypassDocumentValidation let errorsOnly stmtId stmtIds cursor "
     "bypassEmptyTsReplacement",
     "nsInfo", "ns"},
    {"getMore", "getMore collection batchSize term lastKnownCommittedOpTime", NULL, NULL},
    {"killCursors", "killCursors cursors", NULL, NULL},
    {"explain", "explain verbosity", NULL, NULL},
    {"create",
     "create capped size max autoIndexId idIndex validator validationLevel validationAction "
     "indexOptionDefaults viewOn pipeline collation changeStreamPreAndPostImages timeseries clusteredIndex "
     "expireAfterSeconds encryptedFields temp flags recordIdsReplicated storageEngine",
     NULL, NULL},
    {"createIndexes", "createIndexes indexes v ignoreUnknownIndexOptions commitQuorum", NULL, NULL},
    {"dropIndexes", "dropIndexes deleteIndexes index", NULL, NULL},
    {"listIndexes", "listIndexes cursor includeBuildUUIDs includeIndexBuildInfo", NULL, NULL},
    {"collMod",
     "collMod index validator validationLevel validationAction viewOn pipeline cappedSize cappedMax timeseries "
     "changeStreamPreAndPostImages expireAfterSeconds",
     NULL, NULL},
    {"drop", "drop", NULL, NULL},
    {"dropDatabase", "dropDatabase", NULL, NULL},
    {"listCollections", "listCollections cursor filter nameOnly authorizedCollections", NULL, NULL},
    {"listDatabases", "listDatabases filter nameOnly authorizedDatabases", NULL, NULL},
    {"renameCollection", "renameCollection to dropTarget encryptedFields", NULL, NULL},
    {"moveRange",
     "moveRange min max toShard waitForDelete secondaryThrottle forceJumbo _waitForDelete _secondaryThrottle", NULL,
     NULL},
    {"moveCollection", "moveCollection toShard", NULL, NULL},
};

const struct known_fields *known_fields_of(const char *command) {
  for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
    if (!strcmp(commands[i].command, command)) return &commands[i];
  }
  return NULL;
}

static bool among(const char *words, const char *name) {
  size_t len = strlen(name);
  for (const char *at = words; *at;) {
    const char *end = strchrnul(at, ' ');
    if ((size_t)(end - at) == len && !memcmp(at, name, len)) return true;
    at = *end ? end + 1 : end;
  }
  return false;
}

static bool check_body(const struct known_fields *k, const bson_t *body, struct error *err) {
  bson_iter_t it;
  if (!bson_iter_init(&it, body)) return true; // the envelope was read from it
  while (bson_iter_next(&it)) {
    const char *field = bson_iter_key(&it);
    if (among(k->fields, field) || among(generic, field)) continue;
    return error_set(err, UNKNOWN_FIELD, "BSON field '%s.%s' is an unknown field.", k->command, field);
  }
  return true;
}

// explain: the command inside is held to its own fields.
static bool check_explained(const struct request *r, struct error *err) {
  bson_t inner;
  bson_iter_t it;
  if (!doc_doc(r->body, "explain", &inner) || !bson_iter_init(&it, &inner) || !bson_iter_next(&it)) return true;
  const struct known_fields *k = known_fields_of(bson_iter_key(&it));
  return !k || check_body(k, &inner, err);
}

static bool check_statements(const struct known_fields *k, const struct request *r, struct error *err) {
  struct documents docs;
  bson_t doc;
  bson_iter_t it;
  struct error missing; // that there is such a list is for the handler to say
  if (!request_documents(r, k->statements, &docs, &missing)) return true;
  while (documents_next(&docs, &doc)) {
    for (bool more = bson_iter_init(&it, &doc); more && bson_iter_next(&it);) {
      const char *field = bson_iter_key(&it);
      if (among(k->statement_fields, field)) continue;
      return error_set(err, UNKNOWN_FIELD, "BSON field '%s.%s.%s' is an unknown field.", k->command, k->statements,
                       field);
    }
  }
  return true;
}

bool known_fields_check(const struct known_fields *k, const struct request *r, struct error *err) {
  if (!k || r->has_shard_version || r->has_database_version) return true;
  if (!check_body(k, r->body, err) || (k->statements && !check_statements(k, r, err))) return false;
  return strcmp(k->command, "explain") != 0 || check_explained(r, err);
}
