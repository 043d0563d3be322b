// JSON log lines, written whole under one mutex.
#include "common/base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common/base/buf.h"
#include "common/base/clock.h"
#include "common/base/log_recent.h"

enum { RECENT_LINES = 1024, RECENT_LINE_BYTES = 1000 }; // kept in memory; longer lines are cut there

static struct {
  pthread_mutex_t lock;
  char *recent[RECENT_LINES]; // line n of all is at n modulo this
  int64_t written;
  int fd;
  char *path; // NULL: standard output
  enum log_severity most;
  bool ending; // log_fatal() has been called
} the_log = {.lock = PTHREAD_MUTEX_INITIALIZER, .fd = STDOUT_FILENO, .most = LOG_INFO};

static _Thread_local char context[32] = "main";

bool log_open(const char *path, bool append, struct error *err) {
  if (!path) return true;
  int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC | O_APPEND | (append ? 0 : O_TRUNC), 0644);
  if (fd < 0) {
    return error_set(
        err, ERR_OperationFailed,
        "cannot write the log file %s as user %ld: %s: choose another --logpath, or change its folder's owner", path,
        (long)geteuid(), strerror(errno));
  }
  (void)pthread_mutex_lock(&the_log.lock);
  free(the_log.path);
  the_log.path = realpath(path, NULL); // --fork changes the working directory
  the_log.fd = fd;
  (void)pthread_mutex_unlock(&the_log.lock);
  return true;
}

void log_reopen(void) {
  if (!the_log.path) return;
  int fd = open(the_log.path, O_WRONLY | O_CREAT | O_CLOEXEC | O_APPEND, 0644);
  if (fd < 0) {
    log_error("CONTROL", "Cannot reopen the log file, going on with the old one", "path:s reason:s", the_log.path,
              strerror(errno));
    return;
  }
  (void)pthread_mutex_lock(&the_log.lock);
  int old = the_log.fd;
  the_log.fd = fd;
  (void)pthread_mutex_unlock(&the_log.lock);
  (void)close(old);
}

void log_set_verbosity(enum log_severity most) {
  the_log.most = most;
}

void log_set_context(const char *ctx) { // at every change of fibers
  size_t n = strnlen(ctx, sizeof context - 1);
  memcpy(context, ctx, n);
  context[n] = 0;
}

static void add_json_string(struct buf *b, const char *s) {
  // libbson's escaping, so that a log line stays JSON whatever a client puts into a name.
  char *escaped = bson_utf8_escape_for_json(s, -1);
  if (escaped) {
    buf_printf(b, "\"%s\"", escaped);
    bson_free(escaped);
  } else {
    buf_printf(b, "\"(not UTF-8)\"");
  }
}

static void add_document(struct buf *b, const bson_t *doc) {
  char *json = doc ? bson_as_relaxed_extended_json(doc, NULL) : NULL;
  buf_printf(b, "%s", json ? json : "null");
  bson_free(json);
}

static void add_error(struct buf *b, const struct error *e) {
  char name[24];
  buf_printf(b, "{\"code\":%d,\"codeName\":\"%s\",\"errmsg\":", e->code, error_code_name(e->code, name));
  add_json_string(b, e->message);
  buf_printf(b, "}");
}

static void add_string_or_null(struct buf *b, const char *s) {
  if (s)
    add_json_string(b, s);
  else
    buf_printf(b, "null");
}

// "name:type name:type": see log.h.
static void add_attributes(struct buf *b, const char *attrs, va_list *ap) {
  const char *at = attrs;
  bool first = true;
  while (*at) {
    size_t n = strcspn(at, ":");
    char type = at[n] ? at[n + 1] : 0;
    buf_printf(b, "%s\"%.*s\":", first ? "" : ",", (int)n, at);
    first = false;
    switch (type) {
    case 's': add_string_or_null(b, va_arg(*ap, const char *)); break;
    case 'd': buf_printf(b, "%d", va_arg(*ap, int)); break;
    case 'l': buf_printf(b, "%lld", (long long)va_arg(*ap, int64_t)); break;
    case 'f': buf_printf(b, "%.6g", va_arg(*ap, double)); break;
    case 'o': buf_printf(b, "%s", va_arg(*ap, int) ? "true" : "false"); break;
    case 'b': add_document(b, va_arg(*ap, const bson_t *)); break;
    case 'e': add_error(b, va_arg(*ap, const struct error *)); break;
    default: buf_printf(b, "null"); return; // a wrong list: what follows cannot be known
    }
    at += n + 2;
    while (*at == ' ') at++;
  }
}

// A stable number for a message, as MongoDB's lines have one: FNV-1a folded to seven digits.
static unsigned message_id(const char *msg) {
  uint32_t h = 2166136261U;
  for (const char *p = msg; *p; p++) h = (h ^ (uint8_t)*p) * 16777619U;
  return 1000000U + h % 9000000U;
}

static void add_time(struct buf *b) {
  int64_t ms = clock_wall_ms();
  time_t seconds = (time_t)(ms / 1000);
  struct tm tm;
  (void)gmtime_r(&seconds, &tm);
  char text[32];
  (void)strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &tm);
  buf_printf(b, "{\"t\":{\"$date\":\"%s.%03d+00:00\"}", text, (int)(ms % 1000));
}

static void remember(const struct buf *line) {
  size_t len = line->len - 1, kept = len < RECENT_LINE_BYTES ? len : RECENT_LINE_BYTES;
  char **place = &the_log.recent[the_log.written++ % RECENT_LINES];
  free(*place);
  *place = strndup((const char *)line->data, kept);
}

int64_t log_recent(void (*fn)(void *ctx, const char *line, size_t len), void *ctx) {
  (void)pthread_mutex_lock(&the_log.lock);
  int64_t n = the_log.written;
  for (int64_t i = n > RECENT_LINES ? n - RECENT_LINES : 0; i < n; i++) {
    const char *line = the_log.recent[i % RECENT_LINES];
    if (line) fn(ctx, line, strlen(line));
  }
  (void)pthread_mutex_unlock(&the_log.lock);
  return n;
}

static void write_line(enum log_severity s, const char *component, const char *msg, const char *attrs, va_list *ap) {
  static const char letters[] = "FEWID";
  __attribute__((cleanup(buf_cleanup))) struct buf line = {0};
  add_time(&line);
  buf_printf(&line, ",\"s\":\"%c\",\"c\":\"%s\",\"id\":%u,\"ctx\":", letters[s], component, message_id(msg));
  add_json_string(&line, context);
  buf_printf(&line, ",\"msg\":");
  add_json_string(&line, msg);
  if (attrs && *attrs) {
    buf_printf(&line, ",\"attr\":{");
    add_attributes(&line, attrs, ap);
    buf_printf(&line, "}");
  }
  buf_printf(&line, "}\n");
  (void)pthread_mutex_lock(&the_log.lock);
  // A log that cannot be written (a full disk) must not stop the daemon; the line is lost.
  ssize_t written = write(the_log.fd, line.data, line.len);
  (void)written;
  remember(&line);
  (void)pthread_mutex_unlock(&the_log.lock);
}

void log_event(enum log_severity s, const char *component, const char *msg, const char *attrs, ...) {
  if (s > the_log.most) return;
  va_list ap;
  va_start(ap, attrs);
  write_line(s, component, msg, attrs, &ap);
  va_end(ap);
}

void log_info(const char *component, const char *msg, const char *attrs, ...) {
  if (LOG_INFO > the_log.most) return;
  va_list ap;
  va_start(ap, attrs);
  write_line(LOG_INFO, component, msg, attrs, &ap);
  va_end(ap);
}

void log_warn(const char *component, const char *msg, const char *attrs, ...) {
  va_list ap;
  va_start(ap, attrs);
  write_line(LOG_WARN, component, msg, attrs, &ap);
  va_end(ap);
}

void log_error(const char *component, const char *msg, const char *attrs, ...) {
  va_list ap;
  va_start(ap, attrs);
  write_line(LOG_ERROR, component, msg, attrs, &ap);
  va_end(ap);
}

void log_debug(const char *component, const char *msg, const char *attrs, ...) {
  if (LOG_DEBUG > the_log.most) return;
  va_list ap;
  va_start(ap, attrs);
  write_line(LOG_DEBUG, component, msg, attrs, &ap);
  va_end(ap);
}

static bool first_to_end(void) {
  (void)pthread_mutex_lock(&the_log.lock);
  bool first = !the_log.ending;
  the_log.ending = true;
  (void)pthread_mutex_unlock(&the_log.lock);
  return first;
}

void log_fatal(const char *component, const char *msg, const char *attrs, ...) {
  // A full disk fails the loop and the thread pool at once: the process ends with one line, not with both.
  while (!first_to_end()) (void)pause();
  va_list ap;
  va_start(ap, attrs);
  write_line(LOG_FATAL, component, msg, attrs, &ap);
  va_end(ap);
  if (the_log.path) (void)fprintf(stderr, "%s (see %s)\n", msg, the_log.path);
  _Exit(14);
}
