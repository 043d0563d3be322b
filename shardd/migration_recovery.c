// Taking up what an earlier primary's migrations left behind (migration_recovery.h).
#include "shardd/migration_recovery.h"

#include <string.h>

#include "common/base/log.h"
#include "common/bson/doc.h"
#include "shardd/background.h"
#include "shardd/critical_section.h"
#include "shardd/metadata.h"
#include "shardd/migration_destination.h"
#include "shardd/migration_source.h"
#include "shardd/range_deleter.h"
#include "shardd/shard_index.h"

enum { RETRY_MS = 1000 }; // between attempts to decide and deliver

// --- coordinator documents ---

// ns NULL: of every namespace. The one of the running donation is left out: that is its own fiber's.
static size_t unfinished(struct operation *op, struct shard *sh, const char *ns, struct coordinator_doc **out) {
  bson_t *filter = arena_bson(op->arena);
  if (ns) BSON_APPEND_UTF8(filter, "nss", ns);
  const bson_t **docs;
  size_t n = local_find(&sh->node, op->arena, COORDINATORS_NS, filter, NULL, 0, &docs), found = 0;
  *out = arena_zalloc(op->arena, (n + 1) * sizeof **out);
  const struct donation *running = sh->migrations->donation;
  for (size_t i = 0; i < n; i++) {
    struct error err = {0};
    struct coordinator_doc *d = &(*out)[found];
    if (!coordinator_doc_parse(op->arena, docs[i], d, &err)) {
      log_warn("MIGRATE", "A migration coordinator document cannot be read and is left alone", "error:e", &err);
      continue;
    }
    if (!running || memcmp(running->doc.id, d->id, 16) != 0) found++;
  }
  return found;
}

// How many documents of the range are here: orphans, if it was given away.
static int64_t count_documents(struct operation *op, struct shard *sh, const struct coordinator_doc *d) {
  struct collection *c = store_collection_by_uuid(sh->node.store, d->collection);
  struct shard_key key;
  struct error err = {0};
  if (!c || !shard_key_parse(op->arena, c->shard_key, &key, &err)) return 0;
  const struct index *i = shard_index_find(c, &key, NULL);
  if (!i) return 0;
  struct key_range range = shard_index_range(op->arena, d->min, d->max);
  collection_ref(c);
  int64_t n = shard_index_count(op, c, i, &range, INT64_MAX, &err);
  collection_unref(c);
  return n > 0 ? n : 0;
}

bool migration_decide_all_of(struct operation *op, struct shard *sh, const char *ns, struct error *err) {
  struct coordinator_doc *docs;
  size_t n = unfinished(op, sh, ns, &docs);
  for (size_t i = 0; i < n; i++) {
    struct coordinator_doc *d = &docs[i];
    if (d->decision != DECISION_NONE) continue;
    log_info("MIGRATE", "An undecided migration of an earlier primary is recovered", "namespace:s range:s", d->ns,
             range_text(op->arena, d->min, d->max));
    if (!decision_find(op, sh, d, err)) return error_prefix(err, "Failed to recover a migration of %s", ns);
    int64_t orphans = d->decision == DECISION_COMMITTED ? count_documents(op, sh, d) : 0;
    if (!decision_write(op, sh, d, orphans, err)) return error_prefix(err, "Failed to recover a migration of %s", ns);
    migration_recover_soon(sh); // delivers it
  }
  return true;
}

static bool finish_one(struct operation *op, struct shard *sh, const struct coordinator_doc *d, struct error *err) {
  if (d->decision == DECISION_NONE) return metadata_refresh(op, sh->metadata, d->ns, err); // decides, one at a time
  return decision_deliver(op, sh, d, err);
}

// One round over all of them. *left: how many are not over.
static bool finish_round(struct operation *op, struct shard *sh, const char *ns, size_t *left, struct error *err) {
  struct coordinator_doc *docs;
  size_t n = unfinished(op, sh, ns, &docs);
  bool ok = true;
  for (size_t i = 0; i < n; i++) {
    struct error why = {0};
    if (finish_one(op, sh, &docs[i], &why)) continue;
    ok = false;
    error_copy(err, &why, op->arena);
  }
  *left = n;
  return ok;
}

bool migration_finish_earlier(struct operation *op, struct shard *sh, const char *ns, struct error *err) {
  size_t left = 1;
  for (int round = 0; left && round < 3; round++) // decided, delivered, gone
    if (!finish_round(op, sh, ns, &left, err))
      return error_prefix(err, "An earlier migration of %s is not finished", ns);
  return true;
}

// --- staged files and what was adopted ---

struct staged {
  struct operation *op;
  struct shard *sh;
  uint8_t (*uuids)[16];
  uint32_t *files;
  const char **namespaces;
  size_t n, cap;
};

static bool collect_staged(void *ctx, struct collection *c) {
  struct staged *s = ctx;
  const struct reception *running = s->sh->migrations->reception;
  for (size_t i = 0; i < c->n_files && s->n < s->cap; i++) {
    bool own = running && running->file == c->files[i]->id && !memcmp(running->collection, c->uuid, 16);
    if (c->files[i]->state != FILE_STAGED || own) continue;
    memcpy(s->uuids[s->n], c->uuid, 16);
    s->files[s->n] = c->files[i]->id;
    s->namespaces[s->n++] = arena_strdup(s->op->arena, c->ns);
  }
  return true;
}

static bool drop_staged(struct operation *op, struct shard *sh, struct error *err) {
  enum { AT_ONCE = 64 };
  struct staged s = {.op = op, .sh = sh, .cap = AT_ONCE};
  s.uuids = arena_alloc(op->arena, AT_ONCE * sizeof *s.uuids);
  s.files = arena_alloc(op->arena, AT_ONCE * sizeof *s.files);
  s.namespaces = arena_alloc(op->arena, AT_ONCE * sizeof *s.namespaces);
  do {
    s.n = 0;
    store_each_collection(sh->node.store, collect_staged, &s);
    for (size_t i = 0; i < s.n; i++) {
      static const uint8_t no_task[16] = {0};
      if (!reception_unstage(op, sh, s.namespaces[i], no_task, s.uuids[i], s.files[i], err)) return false;
      log_info("MIGRATE", "Documents of an unfinished migration were dropped", "namespace:s", s.namespaces[i]);
    }
  } while (s.n == AT_ONCE);
  return true;
}

bool migration_is_adopted(struct operation *op, struct shard *sh, const uint8_t id[16]) {
  bson_value_t key = uuid_value(id);
  const bson_t *doc;
  return local_find_id(&sh->node, op->arena, RECIPIENTS_NS, &key, &doc);
}

// Pending range deletions of receptions that came to nothing.
static bool drop_tasks(struct operation *op, struct shard *sh, struct error *err) {
  const bson_t **docs;
  size_t n = local_find(&sh->node, op->arena, RANGE_DELETIONS_NS, arena_bson(op->arena), NULL, 0, &docs);
  for (size_t i = 0; i < n; i++) {
    struct range_deletion_doc t;
    const struct reception *running = sh->migrations->reception;
    if (!range_deletion_doc_parse(op->arena, docs[i], &t, err) || !t.pending) continue;
    bool received = sh->name && strcmp(t.donor, sh->name) != 0;
    if (!received || (running && !memcmp(running->id, t.id, 16)) || migration_is_adopted(op, sh, t.id)) continue;
    bson_value_t id = uuid_value(t.id);
    if (!local_delete_now(op, &sh->node, RANGE_DELETIONS_NS, &id, err)) return false;
  }
  return true;
}

// A range that was adopted waits for its donor's word, as it did on the earlier primary. A shard receives one at a
// time.
static void resume_adopted(struct operation *op, struct shard *sh) {
  struct recipient_doc d;
  const bson_t *doc;
  struct error err = {0};
  if (sh->migrations->reception || !local_find_one(&sh->node, op->arena, RECIPIENTS_NS, arena_bson(op->arena), &doc))
    return;
  struct reception *r = reception_new(sh);
  if (!recipient_doc_parse(r->arena, doc, &d, &err)) {
    log_warn("MIGRATE", "A migration recipient document cannot be read and is left alone", "error:e", &err);
    reception_unref(r);
    return;
  }
  r->ns = d.ns;
  r->session_id = d.session_id;
  r->from = r->from_shard = d.donor;
  r->min = d.min;
  r->max = d.max;
  r->min_key = bound_key(r->arena, d.min);
  r->max_key = bound_end(r->arena, d.max);
  memcpy(r->id, d.id, 16);
  memcpy(r->lsid, d.lsid, 16);
  r->txn_number = d.txn_number;
  r->state = RECEPTION_IN_SECTION;
  sh->migrations->reception = r;
  background_start(sh, "receiveChunk", migration_destination_resume, r);
}

// --- the whole ---

void migration_restore_sections(struct shard *sh) {
  struct arena *a __attribute__((cleanup(arena_cleanup))) = arena_new();
  const bson_t **docs;
  size_t n = local_find(&sh->node, a, SECTIONS_NS, arena_bson(a), NULL, 0, &docs);
  for (size_t i = 0; i < n; i++) {
    bson_t reason;
    const char *ns = doc_str(docs[i], "_id", NULL);
    if (!ns || !doc_doc(docs[i], "reason", &reason)) continue;
    section_restore(sh, ns, doc_str(&reason, "owner", ""), doc_str(&reason, "text", ""),
                    doc_bool(docs[i], "blockReads", false));
  }
}

bool migration_recover_received(struct operation *op, struct shard *sh, struct error *err) {
  if (!drop_staged(op, sh, err) || !drop_tasks(op, sh, err)) return false;
  resume_adopted(op, sh);
  return true;
}

static void recover(struct operation *op, void *shard) {
  struct shard *sh = shard;
  struct migrations *m = sh->migrations;
  struct error err = {0};
  size_t left = 1;
  while (left && op_check(op, &err)) {
    m->recover_again = false;
    bool ok = migration_recover_received(op, sh, &err) && finish_round(op, sh, NULL, &left, &err);
    if (!ok) {
      log_warn("MIGRATE", "Recovering migrations failed and is tried again", "error:e", &err);
      op_sleep(op, RETRY_MS, &err);
      left = 1;
    }
    if (m->recover_again) left = 1;
    arena_reset(op->arena);
    err = (struct error){0};
  }
  m->recovering = false;
  if (m->recover_again && repl_is_primary(sh->node.repl)) migration_recover_soon(sh); // asked for by the next term
}

void migration_recover_soon(struct shard *sh) {
  struct migrations *m = sh->migrations;
  m->recover_again = true;
  // What is left is the next primary's, which begins with this.
  if (m->recovering || sh->stopping || !repl_is_primary(sh->node.repl)) return;
  m->recovering = true;
  background_start(sh, "recoverMigrations", recover, sh);
}
