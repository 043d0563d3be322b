// Stable API: apiVersion, apiStrict, apiDeprecationErrors.
#include <string.h>

#include "common/bson/doc.h"
#include "common/net/request.h"

// The commands of API version 1 that there can be here.
static bool in_version_1(const char *command) {
  static const char *const names[] = {"abortTransaction",
                                      "aggregate",
                                      "bulkWrite",
                                      "collMod",
                                      "commitTransaction",
                                      "count",
                                      "create",
                                      "createIndexes",
                                      "delete",
                                      "drop",
                                      "dropDatabase",
                                      "dropIndexes",
                                      "endSessions",
                                      "explain",
                                      "find",
                                      "findAndModify",
                                      "getMore",
                                      "hello",
                                      "insert",
                                      "killCursors",
                                      "listCollections",
                                      "listDatabases",
                                      "listIndexes",
                                      "ping",
                                      "refreshSessions",
                                      "update"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    if (!strcmp(command, names[i])) return true;
  }
  return false;
}

bool request_check_api(const struct request *r, struct error *err) {
  if (!r->has_api_field) return true;
  bson_iter_t it;
  bool strict = doc_bool(r->body, "apiStrict", false);
  if (!doc_get(r->body, "apiVersion", &it)) {
    if (!doc_has(r->body, "apiStrict") && !doc_has(r->body, "apiDeprecationErrors")) return true;
    return error_set(err, 4886600, "Provided apiStrict and/or apiDeprecationErrors without passing apiVersion");
  }
  if (!BSON_ITER_HOLDS_UTF8(&it) || strcmp(bson_iter_utf8(&it, NULL), "1") != 0) {
    return error_set(err, ERR_APIVersionError, "API version must be \"1\"");
  }
  if (!strict || in_version_1(r->command->name)) return true;
  return error_set(err, ERR_APIStrictError, "Provided apiStrict:true, but the command %s is not in API Version 1",
                   r->name);
}
