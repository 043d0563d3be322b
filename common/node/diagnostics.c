// Small commands about this process: ping, buildInfo, hostInfo, getLog, connections, sessions, shutdown.
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/bson/doc.h"
#include "common/bson/hash.h"
#include "common/net/daemon.h"
#include "common/net/process_status.h"
#include "common/node/commands.h"
#include "common/node/cursors.h"
#include "common/node/internal.h"
#include "common/node/rw_defaults.h"

static bool ping_run(struct request *r, bson_t *reply, struct error *err) {
  return true;
}

// [8, 0, 32, 0] of "8.0.32".
static void append_version_array(bson_t *reply) {
  int parts[3] = {0};
  sscanf(shardlet_version, "%d.%d.%d", &parts[0], &parts[1], &parts[2]);
  bson_t array;
  BSON_APPEND_ARRAY_BEGIN(reply, "versionArray", &array);
  BSON_APPEND_INT32(&array, "0", parts[0]);
  BSON_APPEND_INT32(&array, "1", parts[1]);
  BSON_APPEND_INT32(&array, "2", parts[2]);
  BSON_APPEND_INT32(&array, "3", 0);
  bson_append_array_end(reply, &array);
}

static bool build_info_run(struct request *r, bson_t *reply, struct error *err) {
  bson_t child, *modules = arena_bson(r->op->arena);
  BSON_APPEND_UTF8(reply, "version", shardlet_version);
  BSON_APPEND_UTF8(reply, "gitVersion", shardlet_own_version);
  BSON_APPEND_ARRAY(reply, "modules", modules);
  BSON_APPEND_UTF8(reply, "allocator", "system");
  BSON_APPEND_UTF8(reply, "javascriptEngine", "none");
  BSON_APPEND_UTF8(reply, "sysInfo", "deprecated");
  append_version_array(reply);
  BSON_APPEND_INT32(reply, "bits", 64);
  BSON_APPEND_BOOL(reply, "debug", false);
  BSON_APPEND_INT32(reply, "maxBsonObjectSize", DOC_MAX_BYTES);
  BSON_APPEND_ARRAY_BEGIN(reply, "storageEngines", &child);
  BSON_APPEND_UTF8(&child, "0", "sqlite");
  bson_append_array_end(reply, &child);
  BSON_APPEND_DOCUMENT_BEGIN(reply, "shardlet", &child);
  BSON_APPEND_UTF8(&child, "name", "shardlet");
  BSON_APPEND_UTF8(&child, "version", shardlet_own_version);
  bson_append_document_end(reply, &child);
  return true;
}

static bool host_info_run(struct request *r, bson_t *reply, struct error *err) {
  struct utsname u;
  uname(&u);
  int64_t pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
  bson_t child;
  BSON_APPEND_DOCUMENT_BEGIN(reply, "system", &child);
  BSON_APPEND_DATE_TIME(&child, "currentTime", clock_wall_ms());
  BSON_APPEND_UTF8(&child, "hostname", u.nodename);
  BSON_APPEND_INT32(&child, "cpuAddrSize", 64);
  BSON_APPEND_INT64(&child, "memSizeMB", pages * page / (1024 * 1024));
  BSON_APPEND_INT32(&child, "numCores", (int32_t)sysconf(_SC_NPROCESSORS_ONLN));
  BSON_APPEND_UTF8(&child, "cpuArch", u.machine);
  BSON_APPEND_BOOL(&child, "numaEnabled", false);
  bson_append_document_end(reply, &child);
  BSON_APPEND_DOCUMENT_BEGIN(reply, "os", &child);
  BSON_APPEND_UTF8(&child, "type", u.sysname);
  BSON_APPEND_UTF8(&child, "name", u.version);
  BSON_APPEND_UTF8(&child, "version", u.release);
  bson_append_document_end(reply, &child);
  BSON_APPEND_DOCUMENT_BEGIN(reply, "extra", &child);
  BSON_APPEND_INT64(&child, "pageSize", page);
  bson_append_document_end(reply, &child);
  return true;
}

static bool connection_status_run(struct request *r, bson_t *reply, struct error *err) {
  bson_t info, *none = arena_bson(r->op->arena);
  BSON_APPEND_DOCUMENT_BEGIN(reply, "authInfo", &info);
  BSON_APPEND_ARRAY(&info, "authenticatedUsers", none);
  BSON_APPEND_ARRAY(&info, "authenticatedUserRoles", none);
  if (doc_bool(r->body, "showPrivileges", false)) BSON_APPEND_ARRAY(&info, "authenticatedUserPrivileges", none);
  bson_append_document_end(reply, &info);
  return true;
}

static bool whats_my_uri_run(struct request *r, bson_t *reply, struct error *err) {
  BSON_APPEND_UTF8(reply, "you", r->conn ? connection_remote(r->conn) : "");
  return true;
}

static bool list_commands_run(struct request *r, bson_t *reply, struct error *err) {
  dispatcher_list(request_node(r)->dispatcher, reply);
  return true;
}

static bool cmd_line_opts_run(struct request *r, bson_t *reply, struct error *err) {
  bson_t parsed, argv;
  BSON_APPEND_ARRAY_BEGIN(reply, "argv", &argv);
  BSON_APPEND_UTF8(&argv, "0", request_node(r)->program);
  bson_append_array_end(reply, &argv);
  BSON_APPEND_DOCUMENT_BEGIN(reply, "parsed", &parsed);
  bson_append_document_end(reply, &parsed);
  return true;
}

static bool shutdown_run(struct request *r, bson_t *reply, struct error *err) {
  daemon_shutdown(r->op->loop);
  return true;
}

// Sessions live as long as their records; ending one ends its cursors.
static bool end_sessions_run(struct request *r, bson_t *reply, struct error *err) {
  bson_iter_t it = r->first, one;
  if (!BSON_ITER_HOLDS_ARRAY(&it)) return true;
  bson_iter_recurse(&it, &one);
  while (bson_iter_next(&one)) {
    uint8_t lsid[16];
    if (BSON_ITER_HOLDS_DOCUMENT(&one) && doc_uuid(iter_child(r->op->arena, &one), "id", lsid)) {
      cursors_kill_session(request_node(r), lsid);
    }
  }
  return true;
}

static bool start_session_run(struct request *r, bson_t *reply, struct error *err) {
  uint8_t id[16];
  uuid_new(id);
  bson_t child;
  BSON_APPEND_DOCUMENT_BEGIN(reply, "id", &child);
  doc_append_uuid(&child, "id", id);
  bson_append_document_end(reply, &child);
  BSON_APPEND_INT32(reply, "timeoutMinutes", 30);
  return true;
}

static bool hash_element_run(struct request *r, bson_t *reply, struct error *err) {
  bson_iter_t it = r->first;
  bson_value_t v = *bson_iter_value(&it);
  int32_t seed = (int32_t)doc_i64(r->body, "seed", 0);
  doc_append_value(reply, "key", &v);
  BSON_APPEND_INT32(reply, "seed", seed);
  BSON_APPEND_INT64(reply, "out", bson_hash64(&v, seed));
  return true;
}

const struct command node_diagnostic_commands[] = {
    {"hello", NULL, CMD_ANY_STATE | CMD_OP_QUERY, hello_run, "who this member is"},
    {"isMaster", "ismaster", CMD_ANY_STATE | CMD_OP_QUERY, hello_run, "the same for older clients"},
    {"ping", NULL, CMD_ANY_STATE, ping_run, "answers"},
    {"buildInfo", "buildinfo", CMD_ANY_STATE | CMD_OP_QUERY, build_info_run, "versions"},
    {"hostInfo", NULL, CMD_ANY_STATE, host_info_run, "about the machine"},
    {"getParameter", NULL, CMD_ADMIN_ONLY | CMD_ANY_STATE, get_parameter_run, "reads server parameters"},
    {"setParameter", NULL, CMD_ADMIN_ONLY | CMD_ANY_STATE, set_parameter_run, "changes a server parameter"},
    {"setDefaultRWConcern", NULL, CMD_ADMIN_ONLY | CMD_WRITE, set_rw_defaults_run,
     "sets the read and write concern of commands that name none"},
    {"getDefaultRWConcern", NULL, CMD_ADMIN_ONLY | CMD_READ, get_rw_defaults_run,
     "the read and write concern of commands that name none"},
    {"getLog", NULL, CMD_ADMIN_ONLY | CMD_ANY_STATE, get_log_run, "recent lines of the log"},
    {"connectionStatus", NULL, CMD_ANY_STATE, connection_status_run, "who is authenticated: nobody has to be"},
    {"whatsmyuri", NULL, CMD_ANY_STATE, whats_my_uri_run, "the client's address as seen from here"},
    {"listCommands", NULL, CMD_ANY_STATE, list_commands_run, "all commands"},
    {"getCmdLineOpts", NULL, CMD_ADMIN_ONLY | CMD_ANY_STATE, cmd_line_opts_run, "how the process was started"},
    {"currentOp", NULL, CMD_ADMIN_ONLY | CMD_ANY_STATE, current_op_run, "what runs now"},
    {"killOp", NULL, CMD_ADMIN_ONLY | CMD_ANY_STATE, kill_op_run, "ends an operation"},
    {"shutdown", NULL, CMD_ADMIN_ONLY | CMD_ANY_STATE, shutdown_run, "ends the process"},
    {"startSession", NULL, CMD_ANY_STATE, start_session_run, "makes a session id"},
    {"refreshSessions", NULL, CMD_ANY_STATE, ping_run, "accepted: sessions do not expire"},
    {"endSessions", NULL, CMD_ANY_STATE, end_sessions_run, "ends sessions' cursors"},
    {"killSessions", NULL, CMD_ANY_STATE, end_sessions_run, "ends sessions' cursors"},
    {"_hashBSONElement", NULL, CMD_ANY_STATE | CMD_INTERNAL, hash_element_run, "the hash of a value in a hashed index"},
    {0},
};
