// Entries of the log from any well-formed document: reading one never goes astray, whatever its fields are.
#include <string.h>

#include "common/bson/doc.h"
#include "common/store/change.h"

static bool look(void *ctx, const struct change *c) {
  size_t *sum = ctx;
  *sum += strlen(c->kind) + c->doc.len + c->raw.len + c->file + (size_t)c->rid + c->uuid[0];
  if (c->id.value_type == BSON_TYPE_UTF8) *sum += strlen(c->id.value.v_utf8.str);
  return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (!doc_validate(data, size, NULL)) return 0;
  bson_t entry;
  doc_view(&entry, data, size);
  size_t sum = entry_ts(&entry);
  changes_each(&entry, look, &sum);
  return sum == 1;
}
