// configureFailPoint: {configureFailPoint: name, mode: "alwaysOn" | "off" | {times: n}}.
#include "shardd/failpoint.h"

#include <stdlib.h>
#include <string.h>

#include "common/bson/doc.h"

struct failpoint {
  const char *name;
  int64_t times; // how often it still takes effect; INT64_MAX: always
  int64_t entered;
  struct event changed;
};

// The steps at whose end a migration can be held, as MongoDB names them; and those of merging range files.
static const char *const names[] = {
    "moveChunkHangAtStep1",         "moveChunkHangAtStep2",
    "moveChunkHangAtStep3",         "moveChunkHangAtStep4",
    "moveChunkHangAtStep5",         "moveChunkHangAtStep6",
    "migrateThreadHangAtStep1",     "migrateThreadHangAtStep2",
    "migrateThreadHangAtStep3",     "migrateThreadHangAtStep4",
    "migrateThreadHangAtStep5",     "migrateThreadHangAtStep6",
    "migrateThreadHangAtStep7",     "hangBeforeLeavingCriticalSection",
    "suspendRangeDeletion",         "suspendRangeFileMerge",
    "hangRangeFileMergeBeforeCopy", "hangRangeFileMergeAfterCopy",
};

enum { POINTS = sizeof names / sizeof *names };

struct failpoints {
  struct failpoint points[POINTS];
};

struct failpoints *failpoints_new(void) {
  struct failpoints *f = calloc(1, sizeof *f);
  for (size_t i = 0; i < POINTS; i++) f->points[i].name = names[i];
  return f;
}

void failpoints_free(struct failpoints *f) {
  free(f);
}

static struct failpoint *find(struct failpoints *f, const char *name) {
  for (size_t i = 0; i < POINTS; i++)
    if (!strcmp(f->points[i].name, name)) return &f->points[i];
  return NULL;
}

bool failpoint_hang(struct operation *op, struct shard *sh, const char *name, struct error *err) {
  struct failpoint *p = find(sh->failpoints, name);
  if (!p || p->times == 0) return true;
  p->entered++;
  if (p->times != INT64_MAX) p->times--;
  // A point that was set for n times holds until it is switched off, too: that is what tests wait for.
  bool on = true;
  while (on) {
    if (!event_wait(op, &p->changed, err)) return false;
    on = p->times != 0;
  }
  return true;
}

static bool read_mode(const struct request *r, int64_t *times, struct error *err) {
  bson_t mode;
  const char *text = doc_str(r->body, "mode", NULL);
  if (text && !strcmp(text, "off")) {
    *times = 0;
    return true;
  }
  if (text && !strcmp(text, "alwaysOn")) {
    *times = INT64_MAX;
    return true;
  }
  if (!text && doc_doc(r->body, "mode", &mode) && doc_i64(&mode, "times", 0) > 0) {
    *times = doc_i64(&mode, "times", 0);
    return true;
  }
  return error_set(err, ERR_BadValue, "mode must be 'off', 'alwaysOn' or {times: n}");
}

static bool configure_fail_point(struct request *r, bson_t *reply, struct error *err) {
  struct shard *sh = shard_of(r);
  if (!sh->parameters.test_commands) return error_set(err, ERR_CommandNotFound, "no such command: '%s'", r->name);
  int64_t times = 0;
  struct failpoint *p = r->coll ? find(sh->failpoints, r->coll) : NULL;
  if (!p) return error_set(err, ERR_BadValue, "fail point '%s' is not known", r->coll ? r->coll : "");
  if (!read_mode(r, &times, err)) return false;
  doc_append_num(reply, "count", p->entered);
  p->times = times;
  event_signal(&p->changed);
  return true;
}

const struct command shardd_test_commands[] = {
    {"configureFailPoint", NULL, CMD_ADMIN_ONLY | CMD_ANY_STATE | CMD_INTERNAL, configure_fail_point,
     "Holds a migration at a step (tests only)."},
    {0},
};
