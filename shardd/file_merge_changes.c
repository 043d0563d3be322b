// See file_merge_changes.h.
#include "shardd/file_merge_changes.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/map.h"
#include "common/bson/doc.h"

struct noted {
  int64_t rid;
  uint32_t file;
  bson_t *id; // {_id}
};

struct file_changes {
  uint8_t collection[16];
  const uint32_t *files;
  size_t n;
  size_t at; // the copy's place
  int64_t rid;
  struct map *changed; // rid -> struct noted
  bool lost;
};

struct file_changes *file_changes_new(const uint8_t collection[16], const uint32_t *files, size_t n) {
  struct file_changes *c = calloc(1, sizeof *c);
  if (!c) abort();
  memcpy(c->collection, collection, 16);
  c->files = files;
  c->n = n;
  c->changed = map_new();
  return c;
}

static void free_noted(void *p) {
  struct noted *d = p;
  bson_destroy(d->id);
  free(d);
}

void file_changes_free(struct file_changes *c) {
  if (!c) return;
  map_free(c->changed, free_noted);
  free(c);
}

void file_changes_copied(struct file_changes *c, size_t at, int64_t rid) {
  c->at = at;
  c->rid = rid;
}

// --- noting ---

static size_t position(const struct file_changes *c, uint32_t file) {
  size_t i = 0;
  while (i < c->n && c->files[i] != file) i++;
  return i;
}

static void note(struct file_changes *c, const struct change *ch) {
  if (map_get(c->changed, &ch->rid, sizeof ch->rid)) return;
  if (map_count(c->changed) == FILE_CHANGES_MAX) {
    c->lost = true;
    return;
  }
  struct noted *d = calloc(1, sizeof *d);
  if (!d) abort();
  *d = (struct noted){.rid = ch->rid, .file = ch->file, .id = bson_new()};
  doc_append_value(d->id, "_id", &ch->id);
  (void)map_put(c->changed, &d->rid, sizeof d->rid, d);
}

static bool note_change(void *ctx, const struct change *ch) {
  struct file_changes *c = ctx;
  if (memcmp(ch->uuid, c->collection, 16) != 0) return true;
  size_t at = position(c, ch->file);
  if (at == c->n) return true;
  if (!strcmp(ch->kind, "p") || !strcmp(ch->kind, "d")) {
    // invariant: a document that the copy is still to read is not noted, and one that it has read is, always
    if (at < c->at || (at == c->at && ch->rid <= c->rid)) note(c, ch);
  } else if (strcmp(ch->kind, "build") != 0) {
    c->lost = true; // a range of it is deleted, or the file is gone
  }
  return true;
}

void file_changes_entry(struct file_changes *c, const bson_t *entry) {
  if (!c->lost) changes_each(entry, note_change, c);
}

// --- what was noted ---

size_t file_changes_count(const struct file_changes *c) {
  return map_count(c->changed);
}

bool file_changes_complete(const struct file_changes *c) {
  return !c->lost;
}

struct each {
  bool (*fn)(void *ctx, const struct changed_document *d);
  void *ctx;
};

static bool call(void *ctx, const void *key, size_t len, void *value) {
  const struct each *e = ctx;
  const struct noted *n = value;
  struct changed_document d = {.rid = n->rid, .file = n->file};
  (void)doc_value(n->id, "_id", &d.id);
  return e->fn(e->ctx, &d);
}

void file_changes_each(struct file_changes *c, bool (*fn)(void *ctx, const struct changed_document *d), void *ctx) {
  struct each e = {.fn = fn, .ctx = ctx};
  map_each(c->changed, call, &e);
}

struct first {
  struct arena *a;
  struct changed_document *out;
  bool found;
};

static bool take_first(void *ctx, const struct changed_document *d) {
  struct first *f = ctx;
  *f->out = *d;
  f->out->id = value_copy(f->a, &d->id);
  f->found = true;
  return false;
}

bool file_changes_take(struct file_changes *c, struct arena *a, struct changed_document *out) {
  struct first f = {.a = a, .out = out};
  file_changes_each(c, take_first, &f);
  if (f.found) free_noted(map_remove(c->changed, &out->rid, sizeof out->rid));
  return f.found;
}
