// Versions of collections, shards and databases: comparing, BSON forms, and the errors that stale requests get.
#include "common/sharding/version.h"

#include <inttypes.h>
#include <string.h>

#include "common/bson/doc.h"

// IGNORED: an epoch of zero seconds followed by ones, and the highest timestamp.
static const uint8_t ignored_epoch[12] = {0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff};

struct chunk_version chunk_version_unsharded(void) {
  return (struct chunk_version){0};
}

struct chunk_version chunk_version_ignored(void) {
  struct chunk_version v = {.timestamp = UINT64_MAX};
  memcpy(v.epoch.bytes, ignored_epoch, sizeof ignored_epoch);
  return v;
}

bool chunk_version_equal(const struct chunk_version *a, const struct chunk_version *b) {
  return chunk_version_same_generation(a, b) && a->major == b->major && a->minor == b->minor;
}

bool chunk_version_is_unsharded(const struct chunk_version *v) {
  struct chunk_version u = chunk_version_unsharded();
  return chunk_version_equal(v, &u);
}

bool chunk_version_is_ignored(const struct chunk_version *v) {
  struct chunk_version i = chunk_version_ignored();
  return chunk_version_equal(v, &i);
}

bool chunk_version_same_generation(const struct chunk_version *a, const struct chunk_version *b) {
  return a->timestamp == b->timestamp && bson_oid_equal(&a->epoch, &b->epoch);
}

bool chunk_version_compatible(const struct chunk_version *received, const struct chunk_version *wanted) {
  if (chunk_version_is_ignored(received) || chunk_version_is_ignored(wanted)) return true;
  return chunk_version_same_generation(received, wanted) && received->major == wanted->major;
}

int chunk_version_compare(const struct chunk_version *a, const struct chunk_version *b) {
  if (a->timestamp != b->timestamp) return a->timestamp < b->timestamp ? -1 : 1;
  if (a->major != b->major) return a->major < b->major ? -1 : 1;
  return a->minor == b->minor ? 0 : a->minor < b->minor ? -1 : 1;
}

uint64_t chunk_version_lastmod(const struct chunk_version *v) {
  return (uint64_t)v->major << 32 | v->minor;
}

bool chunk_version_parse(const bson_t *doc, struct chunk_version *out, struct error *err) {
  bson_iter_t it;
  uint64_t lastmod;
  *out = (struct chunk_version){0};
  static const char *const names[] = {"e", "t", "v"};
  for (size_t i = 0; i < 3; i++) {
    if (!doc_get(doc, names[i], &it)) {
      return error_set(err, ERR_NoSuchKey, "A version needs the field '%s': {e: ObjectId, t: Timestamp, v: Timestamp}",
                       names[i]);
    }
    if (bson_iter_type(&it) != (i == 0 ? BSON_TYPE_OID : BSON_TYPE_TIMESTAMP)) {
      return error_set(err, ERR_BadValue, "The version's field '%s' must be %s", names[i],
                       i == 0 ? "an ObjectId" : "a Timestamp");
    }
  }
  doc_oid(doc, "e", &out->epoch);
  doc_timestamp(doc, "t", &out->timestamp);
  doc_timestamp(doc, "v", &lastmod);
  out->major = (uint32_t)(lastmod >> 32);
  out->minor = (uint32_t)lastmod;
  return true;
}

void chunk_version_append(bson_t *to, const char *name, const struct chunk_version *v) {
  bson_t doc;
  bson_append_document_begin(to, name, -1, &doc);
  bson_append_oid(&doc, "e", 1, &v->epoch);
  doc_append_ts(&doc, "t", v->timestamp);
  doc_append_ts(&doc, "v", chunk_version_lastmod(v));
  bson_append_document_end(to, &doc);
}

const char *chunk_version_text(struct arena *a, const struct chunk_version *v) {
  char epoch[25];
  bson_oid_to_string(&v->epoch, epoch);
  return arena_printf(
      a, "{ e: ObjectId('%s'), t: Timestamp(%" PRIu32 ", %" PRIu32 "), v: Timestamp(%" PRIu32 ", %" PRIu32 ") }", epoch,
      (uint32_t)(v->timestamp >> 32), (uint32_t)v->timestamp, v->major, v->minor);
}

bool database_version_parse(const bson_t *doc, struct database_version *out, struct error *err) {
  *out = (struct database_version){0};
  if (!doc_uuid(doc, "uuid", out->uuid)) return error_set(err, ERR_BadValue, "databaseVersion.uuid must be a UUID");
  if (!doc_timestamp(doc, "timestamp", &out->timestamp)) {
    return error_set(err, ERR_BadValue, "databaseVersion.timestamp must be a Timestamp");
  }
  int64_t n = doc_i64(doc, "lastMod", -1);
  if (n < 0 || n > INT32_MAX)
    return error_set(err, ERR_BadValue, "databaseVersion.lastMod must be a number, 0 or more");
  out->last_mod = (int32_t)n;
  return true;
}

void database_version_append(bson_t *to, const char *name, const struct database_version *v) {
  bson_t doc;
  bson_append_document_begin(to, name, -1, &doc);
  doc_append_uuid(&doc, "uuid", v->uuid);
  doc_append_ts(&doc, "timestamp", v->timestamp);
  bson_append_int32(&doc, "lastMod", -1, v->last_mod);
  bson_append_document_end(to, &doc);
}

bool database_version_equal(const struct database_version *a, const struct database_version *b) {
  return memcmp(a->uuid, b->uuid, 16) == 0 && a->timestamp == b->timestamp && a->last_mod == b->last_mod;
}

bool error_stale_config(struct error *err, struct arena *a, const char *ns, const struct chunk_version *received,
                        const struct chunk_version *wanted, const char *shard_id, const char *why) {
  bson_t *extra = arena_bson(a);
  bson_append_utf8(extra, "ns", -1, ns, -1);
  chunk_version_append(extra, "vReceived", received);
  if (wanted) chunk_version_append(extra, "vWanted", wanted);
  bson_append_utf8(extra, "shardId", -1, shard_id, -1);
  error_set(err, ERR_StaleConfig, "%s", why);
  return error_extra(err, a, extra);
}

bool error_stale_db_version(struct error *err, struct arena *a, const char *db, const struct database_version *received,
                            const struct database_version *wanted) {
  bson_t *extra = arena_bson(a);
  bson_append_utf8(extra, "db", -1, db, -1);
  database_version_append(extra, "vReceived", received);
  if (wanted) database_version_append(extra, "vWanted", wanted);
  error_set(err, ERR_StaleDbVersion,
            wanted ? "version mismatch for database %s" : "version of database %s is not known", db);
  return error_extra(err, a, extra);
}

bool error_read_stale_config(const struct error *err, const char **ns, struct chunk_version *wanted, bool *has_wanted) {
  if (!err->extra || (err->code != ERR_StaleConfig && err->code != ERR_StaleEpoch)) return false;
  *ns = doc_str(err->extra, "ns", NULL);
  bson_t v;
  *has_wanted = doc_doc(err->extra, "vWanted", &v) && chunk_version_parse(&v, wanted, NULL);
  return *ns != NULL;
}
