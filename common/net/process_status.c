// getLog, and the traffic part of serverStatus.
#include "common/net/process_status.h"

#include <string.h>

#include "common/base/log_recent.h"

struct lines {
  bson_t *array;
  uint32_t n;
};

static void append_line(void *ctx, const char *line, size_t len) {
  struct lines *l = ctx;
  char text[16];
  const char *key;
  size_t key_len = bson_uint32_to_string(l->n++, &key, text, sizeof text);
  if (bson_utf8_validate(line, len, false)) bson_append_utf8(l->array, key, (int)key_len, line, (int)len);
}

static void append_names(bson_t *reply) {
  bson_t array;
  BSON_APPEND_ARRAY_BEGIN(reply, "names", &array);
  BSON_APPEND_UTF8(&array, "0", "global");
  BSON_APPEND_UTF8(&array, "1", "startupWarnings");
  bson_append_array_end(reply, &array);
}

bool get_log_run(struct request *r, bson_t *reply, struct error *err) {
  const char *name;
  if (!request_required_str(r, r->name, &name, err)) return false;
  if (!strcmp(name, "*")) {
    append_names(reply);
    return true;
  }
  bool global = !strcmp(name, "global");
  if (!global && strcmp(name, "startupWarnings") != 0)
    return error_set(err, ERR_OperationFailed, "no RamLog named: %s", name);
  bson_t array = BSON_INITIALIZER;
  struct lines l = {.array = &array};
  int64_t written = global ? log_recent(append_line, &l) : 0;
  BSON_APPEND_INT32(reply, "totalLinesWritten", (int32_t)(written < INT32_MAX ? written : INT32_MAX));
  BSON_APPEND_ARRAY(reply, "log", &array);
  bson_destroy(&array);
  return true;
}

void network_status_append(const struct server *s, bson_t *reply) {
  struct server_traffic t = server_traffic(s);
  bson_t doc;
  BSON_APPEND_DOCUMENT_BEGIN(reply, "network", &doc);
  BSON_APPEND_INT64(&doc, "bytesIn", t.bytes_in);
  BSON_APPEND_INT64(&doc, "bytesOut", t.bytes_out);
  BSON_APPEND_INT64(&doc, "physicalBytesIn", t.bytes_in);
  BSON_APPEND_INT64(&doc, "physicalBytesOut", t.bytes_out);
  BSON_APPEND_INT64(&doc, "numSlowDNSOperations", 0);
  BSON_APPEND_INT64(&doc, "numSlowSSLOperations", 0);
  BSON_APPEND_INT64(&doc, "numRequests", t.requests);
  bson_append_document_end(reply, &doc);
}
