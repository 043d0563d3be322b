// How functions fail: `bool f(..., struct error *err)` returns false and fills *err with a MongoDB error.
//
// The numeric codes and names are MongoDB's (base/error_codes.yml); a code without a name answers "Location<code>".
#ifndef SHARDLET_BASE_ERROR_H
#define SHARDLET_BASE_ERROR_H

#include <bson/bson.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/base/arena.h"

enum error_code {
#define ERROR_CODE(name, code) ERR_##name = (code),
#include "common/base/error_codes.def"
#undef ERROR_CODE
};

struct error {
  int32_t code;        // 0 = no error
  const bson_t *extra; // further top-level reply fields (ns, vReceived, keyPattern...), NULL = none; see error_extra()
  char message[1024];  // never truncated inside a UTF-8 sequence
};

// The name for a code, for example "BadValue"; "Location<code>" (in `buf`) when it has none.
const char *error_code_name(int32_t code, char buf[24]);

// Fills *err and returns false, so that callers write `return error_set(err, ERR_BadValue, "...", ...)`.
// err may be NULL when a caller does not care. extra is reset to NULL.
bool error_set(struct error *err, int32_t code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

// Puts "context :: caused by :: " before the message, as MongoDB does. Returns false.
bool error_prefix(struct error *err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

// Attaches a copy of `extra`, allocated from `a`, which must live as long as the error is looked at. Returns false.
bool error_extra(struct error *err, struct arena *a, const bson_t *extra);

// Copies an error into another arena's lifetime (its `extra` is copied as well).
void error_copy(struct error *to, const struct error *from, struct arena *a);

// "CodeName: message", for logs and nested texts.
const char *error_text(const struct error *err, struct arena *a);

// Categories of reference/sharding.md section 10.
bool error_is_retriable(int32_t code);   // R: a driver may retry
bool error_is_not_primary(int32_t code); // NP
bool error_is_stale(int32_t code);       // StaleConfig, StaleEpoch, StaleDbVersion
bool error_is_network(int32_t code);     // HostUnreachable, HostNotFound, NetworkTimeout, SocketException
bool error_is_interruption(int32_t code);

#endif
