// Rows of config.changelog and config.actionlog (reference/sharding.md 1.2), written over the wire, best effort.
#include "common/sharding/changelog.h"

#include <string.h>
#include <time.h>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/bson/doc.h"
#include "common/sharding/catalog_client.h"

enum { LOG_CHANGE_TIMEOUT_MS = 15000 };

bool changelog_is_action(const char *what) {
  return strncmp(what, "balancer.", 9) == 0;
}

static const char *local_time_text(struct arena *a, int64_t wall_ms) {
  time_t seconds = (time_t)(wall_ms / 1000);
  struct tm tm;
  char text[40], zone[8];
  localtime_r(&seconds, &tm);
  strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &tm);
  strftime(zone, sizeof zone, "%z", &tm);
  return arena_printf(a, "%s.%03d%.3s:%s", text, (int)(wall_ms % 1000), zone, zone + 3);
}

const bson_t *changelog_row(struct arena *a, const char *server, const char *shard, const char *what, const char *ns,
                            const bson_t *details) {
  int64_t now = clock_wall_ms();
  bson_oid_t oid;
  char hex[25];
  bson_oid_init(&oid, NULL);
  bson_oid_to_string(&oid, hex);
  bson_t *row = arena_bson(a);
  bson_append_utf8(row, "_id", -1, arena_printf(a, "%s-%s-%s", server, local_time_text(a, now), hex), -1);
  bson_append_utf8(row, "server", -1, server, -1);
  bson_append_utf8(row, "shard", -1, shard, -1);
  bson_append_utf8(row, "clientAddr", -1, "", -1);
  bson_append_date_time(row, "time", -1, now);
  bson_append_utf8(row, "what", -1, what, -1);
  bson_append_utf8(row, "ns", -1, ns ? ns : "", -1);
  bson_append_document(row, "details", -1, details);
  return row;
}

void catalog_log_rows(struct operation *op, struct replica_set *config, const char *collection,
                      const bson_t *const *rows, size_t n) {
  bson_t *insert = arena_bson(op->arena), docs;
  bson_append_utf8(insert, "insert", -1, collection, -1);
  bson_append_array_begin(insert, "documents", -1, &docs);
  for (size_t i = 0; i < n; i++) {
    char text[16];
    const char *index;
    bson_uint32_to_string((uint32_t)i, &index, text, sizeof text);
    bson_append_document(&docs, index, -1, rows[i]);
  }
  bson_append_array_end(insert, &docs);
  bson_append_bool(insert, "ordered", -1, false);
  append_majority(insert);
  struct error err = {0};
  // Repeating is harmless: a row's _id makes a second one fail.
  if (replica_set_call_primary(op, config, "config", insert, LOG_CHANGE_TIMEOUT_MS, true, NULL, &err)) return;
  for (size_t i = 0; i < n; i++)
    log_warn("SHARDING", "Error encountered while logging config change", "changeType:s namespace:s error:e",
             doc_str(rows[i], "what", ""), doc_str(rows[i], "ns", ""), &err);
}

void catalog_log_change(struct operation *op, struct replica_set *config, const char *server, const char *shard,
                        const char *what, const char *ns, const bson_t *details) {
  const bson_t *row = changelog_row(op->arena, server, shard, what, ns, details);
  catalog_log_rows(op, config, changelog_is_action(what) ? "actionlog" : "changelog", &row, 1);
}
