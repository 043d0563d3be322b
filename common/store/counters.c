// Numbers of a collection: counters that run ahead on a primary, and statistics.
#include "common/store/internal.h"

int64_t collection_next_rid(struct collection *c) {
  struct collection_core *core = core_of(c);
  if (!core->rid_counter) {
    core->rid_counter = 1;
    for (size_t i = 0; i < core->n_files; i++) {
      if (core->files[i]->table.next_rid > core->rid_counter) core->rid_counter = core->files[i]->table.next_rid;
    }
  }
  return core->rid_counter++;
}

uint32_t store_next_file_id(struct store *s) {
  if (!s->file_counter) s->file_counter = s->next_file;
  return s->file_counter++;
}

uint32_t collection_next_index_id(struct collection *c) {
  struct collection_core *core = core_of(c);
  if (!core->index_counter) core->index_counter = core->next_index;
  return core->index_counter++;
}

static bool reset(void *ctx, const void *key, size_t len, void *value) {
  struct collection_core *c = value;
  c->rid_counter = 0;
  c->index_counter = 0;
  return true;
}

void store_reset_counters(struct store *s) {
  s->file_counter = 0;
  map_each(s->by_uuid, reset, NULL);
}

// --- statistics ---

enum { INDEX_ROW_OVERHEAD = 8 }; // record header and rid, beside the key

static int64_t table_index_bytes(const struct table_index *i) {
  return i->key_bytes + i->entries * INDEX_ROW_OVERHEAD;
}

int64_t collection_index_bytes(const struct collection *c, const struct index *i) {
  const struct collection_core *core = core_of(c);
  int64_t bytes = 0;
  for (size_t n = 0; n < core->n_files; n++) {
    if (core->files[n]->state != FILE_ACTIVE) continue;
    const struct table_index *t = table_index(&core->files[n]->table, i->id);
    if (t) bytes += table_index_bytes(t);
  }
  if (i->id == 0 && core->ids) bytes += core->ids->key_bytes + core->ids->entries * 2 * INDEX_ROW_OVERHEAD;
  return bytes;
}

void collection_stats(const struct collection *c, struct collection_stats *out) {
  *out = (struct collection_stats){0};
  const struct collection_core *core = core_of(c);
  for (size_t n = 0; n < core->n_files; n++) {
    const struct store_file *f = core->files[n];
    if (f->state != FILE_ACTIVE) continue;
    out->count += f->table.count;
    out->bytes += f->table.bytes;
    out->storage_bytes += f->own_db.file_bytes;
  }
  for (size_t i = 0; i < c->n_indexes; i++) out->index_bytes += collection_index_bytes(c, c->indexes[i]);
  if (core->ids) out->storage_bytes += core->ids->db.file_bytes;
  // The collections of internal.sqlite share one file: what each takes of it is what it holds.
  if (core->internal) out->storage_bytes = out->bytes + out->index_bytes;
}
