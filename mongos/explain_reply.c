// explain: the shards' answers put together.
#include <string.h>

#include "common/bson/doc.h"
#include "mongos/explain.h"
#include "mongos/routing_cache.h"

static const char *name_of(const struct shard_call *c) {
  return c->target.shard != NULL ? c->target.shard : "config";
}

static const char *connection_string(struct request *r, const struct shard_call *c) {
  struct router *rt = router_of(r);
  if (c->target.shard == NULL) return replica_set_string(rt->config);
  struct error ignored;
  struct replica_set *set = shard_registry_get(r->op, rt->shards, c->target.shard, &ignored);
  return set != NULL ? replica_set_string(set) : c->host;
}

static void begin_element(bson_t *array, size_t i, bson_t *element) {
  char text[16];
  const char *key;
  size_t len = bson_uint32_to_string((uint32_t)i, &key, text, sizeof text);
  bson_append_document_begin(array, key, (int)len, element);
}

static void copy_field(const bson_t *from, const char *field, bson_t *to) {
  bson_iter_t it;
  if (doc_get(from, field, &it)) doc_append_iter(to, NULL, &it);
}

static void append_planner(struct request *r, const char *stage, const struct shard_call *calls, size_t n,
                           bson_t *reply) {
  bson_t planner, plan, shards;
  bson_append_document_begin(reply, "queryPlanner", -1, &planner);
  bson_append_document_begin(&planner, "winningPlan", -1, &plan);
  bson_append_utf8(&plan, "stage", -1, stage, -1);
  bson_append_array_begin(&plan, "shards", -1, &shards);
  for (size_t i = 0; i < n; i++) {
    bson_t shard, inner;
    begin_element(&shards, i, &shard);
    copy_field(calls[i].reply, "explainVersion", &shard);
    bson_append_utf8(&shard, "shardName", -1, name_of(&calls[i]), -1);
    bson_append_utf8(&shard, "connectionString", -1, connection_string(r, &calls[i]), -1);
    copy_field(calls[i].reply, "serverInfo", &shard);
    if (doc_doc(calls[i].reply, "queryPlanner", &inner)) bson_concat(&shard, &inner);
    bson_append_document_end(&shards, &shard);
  }
  bson_append_array_end(&plan, &shards);
  bson_append_document_end(&planner, &plan);
  bson_append_document_end(reply, &planner);
}

struct totals {
  int64_t returned, keys, docs, child_millis;
};

static struct totals add_up(const struct shard_call *calls, size_t n) {
  struct totals t = {0};
  for (size_t i = 0; i < n; i++) {
    bson_t stats;
    if (!doc_doc(calls[i].reply, "executionStats", &stats)) continue;
    t.returned += doc_i64(&stats, "nReturned", 0);
    t.keys += doc_i64(&stats, "totalKeysExamined", 0);
    t.docs += doc_i64(&stats, "totalDocsExamined", 0);
    t.child_millis += doc_i64(&stats, "executionTimeMillis", 0);
  }
  return t;
}

static void append_totals(bson_t *to, const struct totals *t, int64_t millis) {
  doc_append_num(to, "nReturned", t->returned);
  doc_append_num(to, "executionTimeMillis", millis);
  doc_append_num(to, "totalKeysExamined", t->keys);
  doc_append_num(to, "totalDocsExamined", t->docs);
}

static void append_shard_stats(const struct shard_call *calls, size_t n, bson_t *stages) {
  static const char *const fields[] = {"executionSuccess",  "nReturned",         "executionTimeMillis",
                                       "totalKeysExamined", "totalDocsExamined", "executionStages"};
  bson_t shards;
  bson_append_array_begin(stages, "shards", -1, &shards);
  for (size_t i = 0; i < n; i++) {
    bson_t shard, stats;
    begin_element(&shards, i, &shard);
    bson_append_utf8(&shard, "shardName", -1, name_of(&calls[i]), -1);
    if (doc_doc(calls[i].reply, "executionStats", &stats)) {
      for (size_t f = 0; f < sizeof fields / sizeof *fields; f++) copy_field(&stats, fields[f], &shard);
    }
    bson_append_document_end(&shards, &shard);
  }
  bson_append_array_end(stages, &shards);
}

static void append_all_plans(const struct shard_call *calls, size_t n, bson_t *stats) {
  bson_t list, one, plans;
  if (n == 0 || !doc_doc(calls[0].reply, "executionStats", &one) || !doc_has(&one, "allPlansExecution")) return;
  bson_append_array_begin(stats, "allPlansExecution", -1, &list);
  for (size_t i = 0; i < n; i++) {
    bson_t shard;
    begin_element(&list, i, &shard);
    bson_append_utf8(&shard, "shardName", -1, name_of(&calls[i]), -1);
    if (doc_doc(calls[i].reply, "executionStats", &one) && doc_doc(&one, "allPlansExecution", &plans)) {
      bson_append_array(&shard, "allPlans", -1, &plans);
    }
    bson_append_document_end(&list, &shard);
  }
  bson_append_array_end(stats, &list);
}

void explain_append_query(struct request *r, const char *stage, const struct shard_call *calls, size_t n,
                          int64_t millis, bson_t *reply) {
  append_planner(r, stage, calls, n, reply);
  if (n == 0 || !doc_has(calls[0].reply, "executionStats")) return;
  struct totals t = add_up(calls, n);
  bson_t stats, stages;
  bson_append_document_begin(reply, "executionStats", -1, &stats);
  append_totals(&stats, &t, millis);
  bson_append_document_begin(&stats, "executionStages", -1, &stages);
  bson_append_utf8(&stages, "stage", -1, stage, -1);
  append_totals(&stages, &t, millis);
  bson_append_int64(&stages, "totalChildMillis", -1, t.child_millis);
  append_shard_stats(calls, n, &stages);
  bson_append_document_end(&stats, &stages);
  append_all_plans(calls, n, &stats);
  bson_append_document_end(reply, &stats);
}

void explain_append_pipeline(struct request *r, const struct aggregate_plan *plan, const struct shard_call *calls,
                             size_t n, bson_t *reply) {
  bson_t split, shards;
  if (plan != NULL) {
    bson_append_utf8(reply, "mergeType", -1, "mongos", -1);
    bson_append_document_begin(reply, "splitPipeline", -1, &split);
    bson_append_array(&split, "shardsPart", -1, plan->split.shards);
    bson_append_array(&split, "mergerPart", -1, plan->split.merger);
    bson_append_document_end(reply, &split);
  } else {
    bson_append_null(reply, "splitPipeline", -1);
  }
  bson_append_document_begin(reply, "shards", -1, &shards);
  for (size_t i = 0; i < n; i++) {
    static const char *const fields[] = {"explainVersion", "stages", "queryPlanner", "executionStats"};
    bson_t shard;
    bson_append_document_begin(&shards, name_of(&calls[i]), -1, &shard);
    bson_append_utf8(&shard, "host", -1, calls[i].host, -1);
    for (size_t f = 0; f < sizeof fields / sizeof *fields; f++) copy_field(calls[i].reply, fields[f], &shard);
    bson_append_document_end(&shards, &shard);
  }
  bson_append_document_end(reply, &shards);
}

void explain_append_common(struct request *r, const bson_t *inner, bson_t *reply) {
  struct router *rt = router_of(r);
  const char *colon = strrchr(rt->host_port, ':');
  bson_t info, parameters, command;
  bson_append_document_begin(reply, "serverInfo", -1, &info);
  bson_append_utf8(&info, "host", -1, rt->host_port, (int)(colon - rt->host_port));
  bson_append_int32(&info, "port", -1, server_port(rt->server));
  bson_append_utf8(&info, "version", -1, shardlet_version, -1);
  bson_append_utf8(&info, "gitVersion", -1, shardlet_own_version, -1);
  bson_append_document_end(reply, &info);
  bson_append_document_begin(reply, "serverParameters", -1, &parameters);
  bson_append_document_end(reply, &parameters);
  bson_append_document_begin(reply, "command", -1, &command);
  bson_concat(&command, inner);
  if (!doc_has(inner, "$db")) bson_append_utf8(&command, "$db", -1, r->db, -1);
  bson_append_document_end(reply, &command);
}
