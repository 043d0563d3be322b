// Collections that are made when they are read. See virtual.h.
#include "common/node/virtual.h"

#include <string.h>
#include <unistd.h>

#include "common/bson/doc.h"
#include "common/net/daemon.h"
#include "common/node/internal.h"
#include "common/node/oplog.h"

#define OPLOG_NS "local.oplog.rs"
#define STARTUP_NS "local.startup_log"

enum { MOST_ENTRIES = 64, MOST_BYTES = 1 << 20 };

struct virtual_scan {
  struct node *node;
  const struct query *query;
  struct arena *window; // of the documents that were read and not given yet
  const bson_t *docs[MOST_ENTRIES];
  size_t n, at, bytes;
  bool backward;
  uint64_t next, last; // log indexes still to be read: next..last
  size_t width;        // of the next window backwards: small at first, for who wants the newest only
  bool done;
};

bool virtual_is(const char *ns) {
  return !strcmp(ns, OPLOG_NS) || !strcmp(ns, STARTUP_NS);
}

// --- startup_log ---

static const bson_t *startup_document(const struct node *n, struct arena *a) {
  bson_t *doc = arena_bson(a), child;
  const char *colon = strrchr(n->host_port, ':');
  const char *host = arena_strndup(a, n->host_port, colon ? (size_t)(colon - n->host_port) : strlen(n->host_port));
  int64_t started = n->own->started_wall_ms;
  time_t seconds = (time_t)(started / 1000);
  struct tm tm;
  char text[64];
  (void)localtime_r(&seconds, &tm);
  (void)strftime(text, sizeof text, "%a %b %e %H:%M:%S", &tm);
  BSON_APPEND_UTF8(doc, "_id", arena_printf(a, "%s-%lld", host, (long long)started));
  BSON_APPEND_UTF8(doc, "hostname", host);
  BSON_APPEND_DATE_TIME(doc, "startTime", started);
  BSON_APPEND_UTF8(doc, "startTimeLocal", arena_printf(a, "%s.%03d", text, (int)(started % 1000)));
  BSON_APPEND_DOCUMENT_BEGIN(doc, "cmdLine", &child);
  bson_append_document_end(doc, &child);
  BSON_APPEND_INT64(doc, "pid", getpid());
  BSON_APPEND_DOCUMENT_BEGIN(doc, "buildinfo", &child);
  BSON_APPEND_UTF8(&child, "version", shardlet_version);
  BSON_APPEND_UTF8(&child, "gitVersion", shardlet_own_version);
  bson_append_document_end(doc, &child);
  return doc;
}

// --- scanning ---

static int direction(const struct query *q, struct error *err) {
  bson_iter_t it;
  if (!q->sort) return q->natural < 0 ? -1 : 1;
  if (bson_iter_init(&it, q->sort_spec) && bson_iter_next(&it) && !strcmp(bson_iter_key(&it), "ts")) {
    int way = iter_i64(&it) < 0 ? -1 : 1;
    if (!bson_iter_next(&it)) return way;
  }
  error_set(err, ERR_CommandNotSupported, "a sort of local.oplog.rs other than by $natural or ts is not supported");
  return 0;
}

struct virtual_scan *virtual_open(struct arena *a, struct node *n, const char *ns, const struct query *q,
                                  struct error *err) {
  struct virtual_scan *v = arena_zalloc(a, sizeof *v);
  v->node = n;
  v->query = q;
  v->window = arena_child(a);
  if (!strcmp(ns, STARTUP_NS)) {
    v->docs[v->n++] = startup_document(n, a);
    v->next = 1; // nothing of the log
    return v;
  }
  int way = direction(q, err);
  if (!way) return NULL;
  v->backward = way < 0;
  v->width = 1;
  repl_log_bounds(n->repl, &v->next, &v->last);
  return v;
}

struct filling {
  struct virtual_scan *v;
  uint64_t until;
};

static bool take_entry(void *ctx, uint64_t index, int64_t term, const bson_t *entry) {
  struct filling *f = ctx;
  struct virtual_scan *v = f->v;
  if (index > f->until) return false;
  if (!v->backward) v->next = index + 1;
  v->docs[v->n] = oplog_document(v->window, v->node->store, term, entry);
  v->bytes += v->docs[v->n++]->len;
  return index < f->until && v->n < MOST_ENTRIES && (v->backward || v->bytes < MOST_BYTES);
}

static bool read_forward(struct operation *op, struct virtual_scan *v, struct error *err) {
  struct filling f = {.v = v, .until = v->last};
  if (!repl_read_log(op, v->node->repl, v->next, take_entry, &f, err)) return false;
  if (!v->n) v->next = v->last + 1; // what is left are entries that are no documents
  return true;
}

static bool read_backward(struct operation *op, struct virtual_scan *v, struct error *err) {
  uint64_t left = v->last - v->next + 1;
  struct filling f = {.v = v, .until = v->last};
  uint64_t from = v->last - (left < v->width ? left : v->width) + 1;
  v->last = from - 1;
  if (v->width < MOST_ENTRIES) v->width *= 2;
  if (!repl_read_log(op, v->node->repl, from, take_entry, &f, err)) return false;
  for (size_t i = 0; i < v->n / 2; i++) {
    const bson_t *other = v->docs[i];
    v->docs[i] = v->docs[v->n - 1 - i];
    v->docs[v->n - 1 - i] = other;
  }
  return true;
}

static bool fill(struct operation *op, struct virtual_scan *v, struct error *err) {
  uint64_t first, last;
  v->n = v->at = v->bytes = 0;
  arena_reset(v->window);
  while (!v->n && v->next <= v->last) {
    repl_log_bounds(v->node->repl, &first, &last);
    // Backwards, what was cut away meanwhile is simply not there any more.
    if (v->backward && first > v->next) v->next = first;
    if (v->next > v->last) break;
    if (first > v->next)
      return error_set(err, ERR_CappedPositionLost,
                       "CollectionScan died due to position in capped collection being deleted");
    if (!(v->backward ? read_backward : read_forward)(op, v, err)) return false;
  }
  return true;
}

bool virtual_next(struct operation *op, struct virtual_scan *v, const bson_t **doc, struct error *err) {
  for (*doc = NULL; !v->done;) {
    if (v->at == v->n && !fill(op, v, err)) return false;
    if (v->at == v->n) {
      v->done = true;
      break;
    }
    const bson_t *next = v->docs[v->at++];
    *err = (struct error){0};
    if (match_doc(v->query->match, next)) {
      *doc = next;
      return true;
    }
    if (!match_ok(v->query->match, err) || !op_yield_if_due(op, err)) return false;
  }
  return true;
}

bool virtual_at_end(const struct virtual_scan *v) {
  return v->done || (v->at == v->n && v->next > v->last);
}

// --- about them ---

int64_t virtual_count(const struct node *n, const char *ns) {
  uint64_t first, last;
  if (!strcmp(ns, STARTUP_NS)) return 1;
  repl_log_bounds(n->repl, &first, &last);
  return first && last >= first ? (int64_t)(last - first + 1) : 0;
}

void virtual_storage_stats(const struct node *n, const char *ns, int64_t scale, bson_t *out) {
  uint64_t bytes = 0, most = 0;
  int64_t count = virtual_count(n, ns);
  if (!strcmp(ns, OPLOG_NS)) repl_log_bytes(n->repl, &bytes, &most);
  doc_append_num(out, "size", (int64_t)bytes / scale);
  doc_append_num(out, "count", count);
  if (count) doc_append_num(out, "avgObjSize", (int64_t)bytes / count);
  doc_append_num(out, "storageSize", (int64_t)bytes / scale);
  doc_append_num(out, "freeStorageSize", 0);
  BSON_APPEND_BOOL(out, "capped", true);
  doc_append_num(out, "max", 0);
  doc_append_num(out, "maxSize", (int64_t)most / scale);
  BSON_APPEND_INT32(out, "nindexes", 0);
  bson_t sizes;
  BSON_APPEND_DOCUMENT_BEGIN(out, "indexSizes", &sizes);
  bson_append_document_end(out, &sizes);
  doc_append_num(out, "totalIndexSize", 0);
  doc_append_num(out, "totalSize", (int64_t)bytes / scale);
  doc_append_num(out, "scaleFactor", scale);
}

static const bson_t *describe(struct arena *a, const char *name, uint64_t size) {
  bson_t *doc = arena_bson(a), part;
  BSON_APPEND_UTF8(doc, "name", name);
  BSON_APPEND_UTF8(doc, "type", "collection");
  BSON_APPEND_DOCUMENT_BEGIN(doc, "options", &part);
  BSON_APPEND_BOOL(&part, "capped", true);
  doc_append_num(&part, "size", (int64_t)size);
  bson_append_document_end(doc, &part);
  BSON_APPEND_DOCUMENT_BEGIN(doc, "info", &part);
  BSON_APPEND_BOOL(&part, "readOnly", true);
  bson_append_document_end(doc, &part);
  return doc;
}

void virtual_list(const struct node *n, struct arena *a, const char *db, void (*fn)(void *ctx, const bson_t *doc),
                  void *ctx) {
  enum { STARTUP_BYTES = 10 * 1024 * 1024 };
  uint64_t bytes = 0, most = 0;
  if (strcmp(db, "local") != 0) return;
  if (repl_config(n->repl)) {
    repl_log_bytes(n->repl, &bytes, &most);
    fn(ctx, describe(a, "oplog.rs", most));
  }
  fn(ctx, describe(a, "startup_log", STARTUP_BYTES));
}
