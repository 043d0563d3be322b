// MongoDB's error codes and how errors are put together.
#include "common/base/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const char *error_code_name(int32_t code, char buf[24]) {
  switch (code) {
  case 0: return "OK";
#define ERROR_CODE(name, number)                                                                                       \
  case number:                                                                                                         \
    return #name;
#include "common/base/error_codes.def"
#undef ERROR_CODE
  default: break;
  }
  (void)snprintf(buf, 24, "Location%d", code);
  return buf;
}

// Cuts a text that did not fit at a character's border.
static void trim_utf8(char *s, size_t size) {
  size_t n = strlen(s);
  if (n + 1 < size) return;
  size_t start = n;
  while (start > 0 && ((unsigned char)s[start - 1] & 0xC0) == 0x80) start--;
  if (start == 0) return;
  unsigned char lead = (unsigned char)s[start - 1];
  size_t want = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : lead >= 0xC0 ? 2 : 1;
  if (n - (start - 1) < want) s[start - 1] = 0;
}

bool error_set(struct error *err, int32_t code, const char *fmt, ...) {
  if (!err) return false;
  va_list ap;
  va_start(ap, fmt);
  char text[sizeof err->message]; // the arguments may point into err->message
  (void)vsnprintf(text, sizeof text, fmt, ap);
  va_end(ap);
  trim_utf8(text, sizeof text);
  memcpy(err->message, text, strlen(text) + 1);
  err->code = code;
  err->extra = NULL;
  return false;
}

bool error_prefix(struct error *err, const char *fmt, ...) {
  if (!err) return false;
  char text[sizeof err->message];
  va_list ap;
  va_start(ap, fmt);
  int n = vsnprintf(text, sizeof text, fmt, ap);
  va_end(ap);
  size_t at = n < 0 ? 0 : (size_t)n < sizeof text ? (size_t)n : sizeof text - 1;
  (void)snprintf(text + at, sizeof text - at, " :: caused by :: %s", err->message);
  trim_utf8(text, sizeof text);
  memcpy(err->message, text, strlen(text) + 1);
  return false;
}

bool error_extra(struct error *err, struct arena *a, const bson_t *extra) {
  if (err) err->extra = arena_bson_copy(a, bson_get_data(extra), extra->len);
  return false;
}

void error_copy(struct error *to, const struct error *from, struct arena *a) {
  const bson_t *extra = from->extra;
  *to = *from;
  if (extra) to->extra = arena_bson_copy(a, bson_get_data(extra), extra->len);
}

const char *error_text(const struct error *err, struct arena *a) {
  char buf[24];
  return arena_printf(a, "%s: %s", error_code_name(err->code, buf), err->message);
}

bool error_is_not_primary(int32_t code) {
  return code == ERR_PrimarySteppedDown || code == ERR_NotWritablePrimary || code == ERR_NotPrimaryNoSecondaryOk ||
         code == ERR_NotPrimaryOrSecondary || code == ERR_InterruptedDueToReplStateChange;
}

bool error_is_network(int32_t code) {
  return code == ERR_HostUnreachable || code == ERR_HostNotFound || code == ERR_NetworkTimeout ||
         code == ERR_SocketException;
}

bool error_is_retriable(int32_t code) {
  return error_is_not_primary(code) || error_is_network(code) || code == ERR_ShutdownInProgress ||
         code == ERR_ReadConcernMajorityNotAvailableYet || code == ERR_ExceededTimeLimit ||
         code == ERR_InterruptedAtShutdown || code == ERR_RetriableRemoteCommandFailure;
}

bool error_is_stale(int32_t code) {
  return code == ERR_StaleConfig || code == ERR_StaleEpoch || code == ERR_StaleDbVersion;
}

bool error_is_interruption(int32_t code) {
  return code == ERR_Interrupted || code == ERR_InterruptedAtShutdown || code == ERR_InterruptedDueToReplStateChange ||
         code == ERR_MaxTimeMSExpired || code == ERR_ExceededTimeLimit || code == ERR_LockTimeout;
}
