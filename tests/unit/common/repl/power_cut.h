// What a disk has after the power went away, made from a trace of faulty_disk.h.
//
// Of each file: what was there when it was last synced, and of the writes since then a random part, by sectors or
// whole. Of each directory: its entries when it was last synced, and of the creations and removals since then the first
// few (file systems keep those in order). A file's own sync does not make its name durable.
#ifndef SHARDLET_TEST_POWER_CUT_H
#define SHARDLET_TEST_POWER_CUT_H

#include <dirent.h>

#include "common/base/buf.h"
#include "tests/unit/common/repl/faulty_disk.h"

enum { CUT_FILES = 4096, CUT_SECTOR = 512, CUT_PATH = 160 };

struct cut_node { // a file or directory, whatever its name
  uint64_t inode;
  bool directory, dead; // dead: the inode number was given out anew
  struct buf durable;
  const struct disk_event **pending; // writes and truncations that were not synced
  size_t n_pending, cap_pending;
};

struct cut_name_change {
  char path[CUT_PATH];
  int node; // -1: removed
};

struct cut_name {
  char path[CUT_PATH];
  int node;
};

struct cut {
  const char *root;
  struct cut_node nodes[CUT_FILES];
  int n_nodes;
  struct cut_name names[CUT_FILES]; // durable
  int n_names;
  struct cut_name_change changes[CUT_FILES]; // of names, not synced, oldest first
  int n_changes;
  uint64_t last_mark;
  size_t at; // in the trace
  uint64_t random;
};

static uint32_t cut_pick(struct cut *c, uint32_t below) {
  c->random = c->random * UINT64_C(6364136223846793005) + 1442695040888963407u;
  return (uint32_t)(c->random >> 33) % below;
}

static int cut_node_new(struct cut *c, uint64_t inode, bool directory) {
  if (c->n_nodes == CUT_FILES) abort();
  for (int i = 0; i < c->n_nodes; i++)
    if (c->nodes[i].inode == inode) c->nodes[i].dead = true;
  c->nodes[c->n_nodes] = (struct cut_node){.inode = inode, .directory = directory};
  return c->n_nodes++;
}

static struct cut_node *cut_node_of(struct cut *c, uint64_t inode) {
  for (int i = c->n_nodes - 1; i >= 0; i--)
    if (c->nodes[i].inode == inode && !c->nodes[i].dead) return &c->nodes[i];
  return NULL;
}

static void cut_name_apply(struct cut_name *names, int *n, const struct cut_name_change *change) {
  int at = 0;
  while (at < *n && strcmp(names[at].path, change->path) != 0) at++;
  if (change->node < 0) {
    if (at < *n) names[at] = names[--*n];
    return;
  }
  if (at == *n && ++*n > CUT_FILES) abort();
  memcpy(names[at].path, change->path, CUT_PATH);
  names[at].node = change->node;
}

// --- what was on the disk before ---

static void cut_load_file(struct buf *to, const char *path) {
  FILE *in = fopen(path, "rb");
  if (!in) abort();
  uint8_t block[4096];
  for (size_t n = fread(block, 1, sizeof block, in); n; n = fread(block, 1, sizeof block, in)) buf_add(to, block, n);
  (void)fclose(in);
}

static void cut_load(struct cut *c, const char *path) {
  DIR *dir = opendir(path);
  struct stat st;
  if (!dir || stat(path, &st) != 0) abort();
  int self = cut_node_new(c, st.st_ino, true);
  struct cut_name_change change = {.node = self};
  (void)snprintf(change.path, CUT_PATH, "%s", path);
  cut_name_apply(c->names, &c->n_names, &change);
  for (struct dirent *e = readdir(dir); e; e = readdir(dir)) {
    if (e->d_name[0] == '.') continue;
    (void)snprintf(change.path, CUT_PATH, "%s/%s", path, e->d_name);
    if (stat(change.path, &st) != 0) abort();
    if (S_ISDIR(st.st_mode)) {
      cut_load(c, change.path);
      continue;
    }
    change.node = cut_node_new(c, st.st_ino, false);
    cut_load_file(&c->nodes[change.node].durable, change.path);
    cut_name_apply(c->names, &c->n_names, &change);
  }
  (void)closedir(dir);
}

// Of a data directory as it is now, all of which is taken as durable. The trace has to begin now.
static struct cut *cut_new(const char *root, uint64_t seed) {
  struct cut *c = calloc(1, sizeof *c);
  if (!c) abort();
  c->root = root;
  c->random = seed;
  cut_load(c, root);
  return c;
}

static void cut_free(struct cut *c) {
  for (int i = 0; i < c->n_nodes; i++) {
    buf_free(&c->nodes[i].durable);
    free(c->nodes[i].pending);
  }
  free(c);
}

// --- the trace ---

static void cut_resize(struct buf *b, size_t len) {
  if (b->len < len) memset(buf_reserve(b, len - b->len), 0, len - b->len);
  b->len = len;
}

static void cut_apply_part(struct buf *b, const struct disk_event *e, size_t from, size_t to) {
  if (b->len < e->offset + to) cut_resize(b, e->offset + to);
  memcpy(b->data + e->offset + from, (const uint8_t *)(e + 1) + from, to - from);
}

static void cut_apply(struct buf *b, const struct disk_event *e) {
  if (e->kind == DISK_TRUNCATE) {
    cut_resize(b, e->offset);
  } else {
    cut_apply_part(b, e, 0, e->len);
  }
}

static void cut_sync_directory(struct cut *c, const struct cut_node *node) {
  char path[CUT_PATH] = "";
  for (int i = 0; i < c->n_names; i++)
    if (&c->nodes[c->names[i].node] == node) memcpy(path, c->names[i].path, CUT_PATH);
  for (int i = 0; i < c->n_changes; i++)
    if (c->changes[i].node >= 0 && &c->nodes[c->changes[i].node] == node) memcpy(path, c->changes[i].path, CUT_PATH);
  size_t len = strlen(path);
  int kept = 0;
  for (int i = 0; i < c->n_changes; i++) {
    const char *slash = strrchr(c->changes[i].path, '/');
    if (len && (size_t)(slash - c->changes[i].path) == len && strncmp(c->changes[i].path, path, len) == 0) {
      cut_name_apply(c->names, &c->n_names, &c->changes[i]);
    } else {
      c->changes[kept++] = c->changes[i];
    }
  }
  c->n_changes = kept;
}

static void cut_sync(struct cut *c, uint64_t inode) {
  struct cut_node *node = cut_node_of(c, inode);
  if (!node) return;
  if (node->directory) cut_sync_directory(c, node);
  for (size_t i = 0; i < node->n_pending; i++) cut_apply(&node->durable, node->pending[i]);
  node->n_pending = 0;
}

static void cut_change_name(struct cut *c, const char *path, int node) {
  if (c->n_changes == CUT_FILES) abort();
  struct cut_name_change *change = &c->changes[c->n_changes++];
  (void)snprintf(change->path, CUT_PATH, "%s", path);
  change->node = node;
}

static void cut_event(struct cut *c, const struct disk_event *e) {
  struct cut_node *node = cut_node_of(c, e->inode);
  switch (e->kind) {
  case DISK_CREATE: cut_change_name(c, (const char *)(e + 1), cut_node_new(c, e->inode, false)); break;
  case DISK_MKDIR: cut_change_name(c, (const char *)(e + 1), cut_node_new(c, e->inode, true)); break;
  case DISK_REMOVE: cut_change_name(c, (const char *)(e + 1), -1); break;
  case DISK_SYNC: cut_sync(c, e->inode); break;
  case DISK_MARK: c->last_mark = e->offset; break;
  case DISK_WRITE:
  case DISK_TRUNCATE:
    if (!node) break;
    node->pending = array_grow(node->pending, &node->cap_pending, node->n_pending + 1, sizeof(*node->pending));
    node->pending[node->n_pending++] = e;
  }
}

// Goes on to the place `until` of the trace (an event that has begun there is over).
static void cut_advance(struct cut *c, const struct disk *d, size_t until) {
  while (c->at < until && c->at < d->used) {
    const struct disk_event *e = (const struct disk_event *)(d->trace + c->at);
    cut_event(c, e);
    c->at += sizeof *e + ((e->len + 7) & ~(size_t)7);
  }
}

// --- the power goes ---

enum cut_mode { CUT_LOSES_ALL, CUT_KEEPS_ALL, CUT_WHOLE_WRITES, CUT_SECTORS, CUT_MODES };

static void cut_content(struct cut *c, const struct cut_node *node, enum cut_mode mode, struct buf *out) {
  buf_add(out, node->durable.data, node->durable.len);
  for (size_t i = 0; i < node->n_pending && mode != CUT_LOSES_ALL; i++) {
    const struct disk_event *e = node->pending[i];
    if (mode == CUT_KEEPS_ALL || e->kind == DISK_TRUNCATE || mode == CUT_WHOLE_WRITES) {
      if (mode == CUT_KEEPS_ALL || cut_pick(c, 2)) cut_apply(out, e);
      continue;
    }
    for (size_t from = 0; from < e->len; from += CUT_SECTOR)
      if (cut_pick(c, 4)) cut_apply_part(out, e, from, from + CUT_SECTOR < e->len ? from + CUT_SECTOR : e->len);
  }
}

static bool cut_has_parent(const struct cut_name *names, int n, const char *path) {
  size_t len = (size_t)(strrchr(path, '/') - path);
  for (int i = 0; i < n; i++)
    if (strlen(names[i].path) == len && strncmp(names[i].path, path, len) == 0) return true;
  return false;
}

static void cut_make(struct cut *c, const struct cut_name *name, const char *to, enum cut_mode mode) {
  char path[CUT_PATH * 2];
  (void)snprintf(path, sizeof path, "%s%s", to, name->path + strlen(c->root));
  if (c->nodes[name->node].directory) return;
  char *slash = strrchr(path, '/');
  *slash = 0;
  (void)mkdir(path, 0700);
  *slash = '/';
  struct buf content = {0};
  cut_content(c, &c->nodes[name->node], mode, &content);
  FILE *out = fopen(path, "wb");
  if (!out || fwrite(content.data ? content.data : (const uint8_t *)"", 1, content.len, out) != content.len) abort();
  (void)fclose(out);
  buf_free(&content);
}

// Makes the folder `to` as the disk may be now. Returns the mark that was set last.
static uint64_t cut_power(struct cut *c, const char *to) {
  enum cut_mode mode = cut_pick(c, CUT_MODES);
  struct cut_name *names = malloc(sizeof c->names);
  if (!names) abort();
  memcpy(names, c->names, sizeof c->names);
  int n = c->n_names;
  // A place in each directory's changes up to which they got to the disk.
  for (int i = 0; i < c->n_changes; i++) {
    if (mode == CUT_LOSES_ALL || (mode != CUT_KEEPS_ALL && cut_pick(c, 8) == 0)) break;
    cut_name_apply(names, &n, &c->changes[i]);
  }
  (void)mkdir(to, 0700);
  for (int i = 0; i < n; i++)
    if (strcmp(names[i].path, c->root) != 0 && cut_has_parent(names, n, names[i].path))
      cut_make(c, &names[i], to, mode);
  free(names);
  return c->last_mark;
}

#endif
