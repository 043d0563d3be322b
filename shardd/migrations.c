// Who may migrate what now.
#include "shardd/migrations.h"

#include <stdlib.h>
#include <string.h>

#include "common/bson/doc.h"
#include "shardd/migration_destination.h"
#include "shardd/migration_source.h"

struct hold {
  size_t n;
};

struct migrations *migrations_new(struct shard *sh) {
  struct migrations *m = calloc(1, sizeof *m);
  m->sh = sh;
  m->holds = map_new();
  return m;
}

void migrations_free(struct migrations *m) {
  if (!m) return;
  reception_unref(m->last_reception);
  map_free(m->holds, free);
  free(m);
}

static const char *donation_range(struct arena *a, const struct donation *d) {
  const bson_t *min = d->doc.min ? d->doc.min : d->request.min, *max = d->doc.max ? d->doc.max : d->request.max;
  return arena_printf(a, "[%s, %s)", min ? doc_text(a, min) : "", max ? doc_text(a, max) : "");
}

bool migrations_may_start(const struct migrations *m, const char *ns, struct error *err) {
  struct arena *a __attribute__((cleanup(arena_cleanup))) = arena_new();
  const struct donation *d = m->donation;
  const struct reception *r = m->reception;
  if (d)
    return error_set(err, ERR_ConflictingOperationInProgress,
                     "Unable to start new balancer operation because this shard is currently donating range '%s' for "
                     "namespace %s to shard %s",
                     donation_range(a, d), d->request.ns, d->request.to);
  if (r)
    return error_set(err, ERR_ConflictingOperationInProgress,
                     "Unable to start new balancer operation because this shard is currently receiving chunk '%s' for "
                     "namespace %s from %s",
                     range_text(a, r->min, r->max), r->ns, r->from_shard);
  if (map_gets(m->holds, ns))
    return error_set(err, ERR_ConflictingOperationInProgress,
                     "Unable to start new balancer operation because the ActiveMigrationsRegistry of this shard is "
                     "temporarily locked");
  return true;
}

bool migrations_running(const struct migrations *m, const char *ns) {
  return (m->donation && !strcmp(m->donation->request.ns, ns)) || (m->reception && !strcmp(m->reception->ns, ns));
}

static void interrupt_running(struct migrations *m, const char *ns) {
  struct donation *d = m->donation;
  if (d && d->op && !d->in_section && !strcmp(d->request.ns, ns)) operation_kill(d->op, ERR_Interrupted);
  if (m->reception && !strcmp(m->reception->ns, ns)) reception_interrupt(m->reception);
}

bool migrations_hold(struct operation *op, struct migrations *m, const char *ns, bool interrupt, struct error *err) {
  struct hold *h = map_gets(m->holds, ns);
  if (!h) {
    h = calloc(1, sizeof *h);
    map_puts(m->holds, ns, h);
  }
  h->n++; // none begins from here on
  while (migrations_running(m, ns)) {
    if (interrupt) interrupt_running(m, ns);
    if (event_wait(op, &m->changed, err)) continue;
    migrations_release(m, ns);
    return false;
  }
  return true;
}

void migrations_release(struct migrations *m, const char *ns) {
  struct hold *h = map_gets(m->holds, ns);
  if (!h || --h->n > 0) return;
  map_removes(m->holds, ns);
  free(h);
  event_signal(&m->changed);
}

void migrations_status(const struct migrations *m, bson_t *sharding) {
  const struct donation *d = m->donation;
  const struct reception *r = m->reception;
  if (!d && !r) return;
  bson_t out, chunk;
  BSON_APPEND_DOCUMENT_BEGIN(sharding, "migrations", &out);
  BSON_APPEND_UTF8(&out, "source", d ? m->sh->name : r->from_shard);
  BSON_APPEND_UTF8(&out, "destination", d ? d->request.to : m->sh->name);
  BSON_APPEND_BOOL(&out, "isDonorShard", d != NULL);
  const bson_t *min = d ? d->doc.min : r->min, *max = d ? d->doc.max : r->max;
  BSON_APPEND_DOCUMENT_BEGIN(&out, "chunk", &chunk);
  if (min) BSON_APPEND_DOCUMENT(&chunk, "min", min);
  if (max) BSON_APPEND_DOCUMENT(&chunk, "max", max);
  bson_append_document_end(&out, &chunk);
  BSON_APPEND_UTF8(&out, "collection", d ? d->request.ns : r->ns);
  bson_append_document_end(sharding, &out);
}
