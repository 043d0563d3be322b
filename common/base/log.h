// The log: one JSON object a line, as MongoDB writes it.
//
//   {"t":{"$date":"..."},"s":"I","c":"MIGRATE","id":1234567,"ctx":"conn12","msg":"Migration finished","attr":{...}}
//
// This is the process's only global: every thread may write, lines are never mixed. `id` is derived from the message.
#ifndef SHARDLET_BASE_LOG_H
#define SHARDLET_BASE_LOG_H

#include <stdbool.h>

#include "common/base/error.h"

enum log_severity { LOG_FATAL, LOG_ERROR, LOG_WARN, LOG_INFO, LOG_DEBUG };

// To standard output when path is NULL. append false truncates. Fails with the path and the reason.
bool log_open(const char *path, bool append, struct error *err);
void log_reopen(void);                          // SIGUSR1: the path again, after a rotation
void log_set_verbosity(enum log_severity most); // lines less severe than this are dropped; LOG_INFO at first
void log_set_context(const char *ctx);          // this thread's "ctx" from now on; copied, 31 bytes at most

// component: "MIGRATE", "SHARDING", "REPL", "NETWORK", "STORAGE", "RANGEDEL", "CONTROL", "COMMAND", "INDEX",
// "BALANCER". attrs: a list of "name:type" separated by spaces, each taking one argument:
//   s const char * (NULL prints null)  d int32_t  l int64_t  f double  o bool  b const bson_t * (a document)
//   e const struct error * (as {code, codeName, errmsg})
// or NULL for none. Example: log_info("MIGRATE", "Migration finished", "docsCloned:l bytesCloned:l", docs, bytes);
void log_event(enum log_severity s, const char *component, const char *msg, const char *attrs, ...);
void log_info(const char *component, const char *msg, const char *attrs, ...);
void log_warn(const char *component, const char *msg, const char *attrs, ...);
void log_error(const char *component, const char *msg, const char *attrs, ...);
void log_debug(const char *component, const char *msg, const char *attrs, ...);

// Writes a line of severity F and ends the process with exit code 14. For what must not go on: a failed fsync, a log
// that cannot be written.
void log_fatal(const char *component, const char *msg, const char *attrs, ...) __attribute__((noreturn));

#endif
