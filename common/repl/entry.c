// Entries of the replicated log in memory.
#include "common/repl/entry.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/log.h"
#include "common/bson/doc.h"

struct entry *entry_new(enum entry_type type, uint64_t term, const void *data, size_t len) {
  struct entry *e = malloc(sizeof *e + len);
  if (!e) log_fatal("REPL", "Out of memory for a log entry", "bytes:l", (int64_t)len);
  *e = (struct entry){.refs = 1, .len = (uint32_t)len, .term = term, .type = (uint8_t)type};
  if (len) memcpy(e->data, data, len);
  return e;
}

struct entry *entry_ref(struct entry *e) {
  e->refs++;
  return e;
}

void entry_unref(struct entry *e) {
  if (e && --e->refs == 0) free(e);
}

void entry_doc(const struct entry *e, bson_t *view) {
  doc_view(view, e->data, e->len);
}
