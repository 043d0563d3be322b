// What clients ask a router about itself.
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/bson/doc.h"
#include "mongos/aggregate.h"
#include "mongos/ddl.h"
#include "common/net/process_status.h"
#include "mongos/hello.h"
#include "mongos/parameters.h"

static bool run_ping(struct request *r, bson_t *reply, struct error *err) {
  return true;
}

static bool run_is_db_grid(struct request *r, bson_t *reply, struct error *err) {
  const char *host = router_of(r)->host_port;
  bson_append_int32(reply, "isdbgrid", -1, 1);
  bson_append_utf8(reply, "hostname", -1, host, (int)(strrchr(host, ':') - host));
  return true;
}

static bool run_build_info(struct request *r, bson_t *reply, struct error *err) {
  bson_t list, own;
  int major = 0, minor = 0, patch = 0;
  (void)sscanf(shardlet_version, "%d.%d.%d", &major, &minor, &patch);
  const int parts[] = {major, minor, patch, 0};
  bson_append_utf8(reply, "version", -1, shardlet_version, -1);
  bson_append_utf8(reply, "gitVersion", -1, "shardlet", -1);
  bson_append_array_begin(reply, "modules", -1, &list);
  bson_append_array_end(reply, &list);
  bson_append_utf8(reply, "sysInfo", -1, "deprecated", -1);
  bson_append_array_begin(reply, "versionArray", -1, &list);
  for (uint32_t i = 0; i < 4; i++) bson_append_int32(&list, (const char *[]){"0", "1", "2", "3"}[i], 1, parts[i]);
  bson_append_array_end(reply, &list);
  bson_append_int32(reply, "bits", -1, 64);
  bson_append_bool(reply, "debug", -1, false);
  bson_append_int32(reply, "maxBsonObjectSize", -1, DOC_MAX_BYTES);
  bson_append_document_begin(reply, "shardlet", -1, &own);
  bson_append_utf8(&own, "name", -1, "shardlet", -1);
  bson_append_utf8(&own, "version", -1, shardlet_own_version, -1);
  bson_append_document_end(reply, &own);
  return true;
}

static bool run_host_info(struct request *r, bson_t *reply, struct error *err) {
  struct utsname u;
  bson_t doc;
  if (uname(&u) != 0) memset(&u, 0, sizeof u);
  int64_t megabytes = (int64_t)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE) / (1024 * 1024);
  bson_append_document_begin(reply, "system", -1, &doc);
  bson_append_date_time(&doc, "currentTime", -1, clock_wall_ms());
  bson_append_utf8(&doc, "hostname", -1, router_of(r)->host_port, -1);
  bson_append_int32(&doc, "cpuAddrSize", -1, 64);
  bson_append_int64(&doc, "memSizeMB", -1, megabytes);
  bson_append_int64(&doc, "memLimitMB", -1, megabytes);
  bson_append_int32(&doc, "numCores", -1, (int32_t)sysconf(_SC_NPROCESSORS_ONLN));
  bson_append_utf8(&doc, "cpuArch", -1, u.machine, -1);
  bson_append_bool(&doc, "numaEnabled", -1, false);
  bson_append_document_end(reply, &doc);
  bson_append_document_begin(reply, "os", -1, &doc);
  bson_append_utf8(&doc, "type", -1, u.sysname, -1);
  bson_append_utf8(&doc, "name", -1, u.sysname, -1);
  bson_append_utf8(&doc, "version", -1, u.release, -1);
  bson_append_document_end(reply, &doc);
  bson_append_document_begin(reply, "extra", -1, &doc);
  bson_append_document_end(reply, &doc);
  return true;
}

static bool run_connection_status(struct request *r, bson_t *reply, struct error *err) {
  bson_t info, list;
  bson_append_document_begin(reply, "authInfo", -1, &info);
  bson_append_array_begin(&info, "authenticatedUsers", -1, &list);
  bson_append_array_end(&info, &list);
  bson_append_array_begin(&info, "authenticatedUserRoles", -1, &list);
  bson_append_array_end(&info, &list);
  bson_append_document_end(reply, &info);
  return true;
}

static bool run_whats_my_uri(struct request *r, bson_t *reply, struct error *err) {
  bson_append_utf8(reply, "you", -1, r->conn != NULL ? connection_remote(r->conn) : "", -1);
  return true;
}

static bool run_list_commands(struct request *r, bson_t *reply, struct error *err) {
  dispatcher_list(router_of(r)->dispatcher, reply);
  return true;
}

static bool run_current_op(struct request *r, bson_t *reply, struct error *err) {
  const bson_t **rows;
  size_t n;
  bson_t list;
  current_operations(r, &rows, &n);
  bson_append_array_begin(reply, "inprog", -1, &list);
  for (size_t i = 0; i < n; i++) {
    char text[16];
    const char *key;
    size_t len = bson_uint32_to_string((uint32_t)i, &key, text, sizeof text);
    bson_append_document(&list, key, (int)len, rows[i]);
  }
  bson_append_array_end(reply, &list);
  return true;
}

static bool run_kill_op(struct request *r, bson_t *reply, struct error *err) {
  bson_iter_t it;
  if (!doc_get(r->body, "op", &it) || !iter_is_number(&it)) {
    return error_set(err, ERR_NoSuchKey, "killOp on a router takes the number of one of its operations as 'op'");
  }
  struct operation *op = operation_find(r->op->loop, (uint64_t)iter_i64(&it));
  if (op != NULL) operation_kill(op, ERR_Interrupted);
  bson_append_utf8(reply, "info", -1, "attempting to kill op", -1);
  return true;
}

static bool run_shutdown(struct request *r, bson_t *reply, struct error *err) {
  daemon_shutdown(r->op->loop);
  return true;
}

static bool run_log_rotate(struct request *r, bson_t *reply, struct error *err) {
  log_reopen();
  return true;
}

static bool run_repl_set_status(struct request *r, bson_t *reply, struct error *err) {
  return error_set(err, ERR_CommandNotSupported, "%s is not supported through mongos", r->name);
}

enum { ASK = CMD_ANY_STATE | CMD_READ, ASK_FIRST = CMD_ANY_STATE | CMD_READ | CMD_OP_QUERY };
enum { ADMIN = CMD_ANY_STATE | CMD_ADMIN_ONLY };

const struct command router_diagnostic_commands[] = {
    {"hello", NULL, ASK_FIRST, run_hello, "what kind of server this is"},
    {"isMaster", "ismaster", ASK_FIRST, run_is_master, "what kind of server this is, by its older name"},
    {"buildInfo", "buildinfo", ASK_FIRST, run_build_info, "versions"},
    {"ping", NULL, ASK, run_ping, "whether the server answers"},
    {"isdbgrid", NULL, ASK, run_is_db_grid, "whether this is a router"},
    {"getLog", NULL, ADMIN, get_log_run, "recent lines of the log"},
    {"hostInfo", NULL, ASK, run_host_info, "the machine"},
    {"connectionStatus", NULL, ASK, run_connection_status, "who is authenticated on this connection"},
    {"whatsmyuri", NULL, ASK, run_whats_my_uri, "the client's address"},
    {"listCommands", NULL, ASK, run_list_commands, "all commands"},
    {"getParameter", NULL, ADMIN, run_get_parameter, "settings of this process"},
    {"setParameter", NULL, ADMIN, run_set_parameter, "changes a setting of this process"},
    {"currentOp", NULL, ADMIN, run_current_op, "what runs now"},
    {"killOp", NULL, ADMIN, run_kill_op, "ends an operation"},
    {"shutdown", NULL, ADMIN, run_shutdown, "ends this process"},
    {"logRotate", NULL, ADMIN, run_log_rotate, "opens the log file again"},
    {"replSetGetStatus", NULL, ADMIN, run_repl_set_status, "not for routers"},
    {NULL, NULL, 0, NULL, NULL},
};
