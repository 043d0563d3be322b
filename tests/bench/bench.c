// The table of speed and footprint: each row beside its limit, measured in the same run on the same machine.
//
//   bench ROUTER_PORT SHARD1_PORT FOLDER STARTUP_MS RSS_KB [ROWS...]
//
// started by run.sh against a fresh cluster of two shards. ROWS: those to measure (see `groups`), all if none is named.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/bson/doc.h"
#include "common/sharding/chunk_map.h"
#include "tests/bench/client.h"
#include "tests/bench/limits.h"

struct bench {
  int router, shard1;
  const char *folder;
  struct client client;
  struct arena *arena;
  int missed;
};

static void row(struct bench *b, const char *what, double ours, double limit, const char *unit, double ratio,
                double bound, bool at_least) {
  bool ok = at_least ? ratio >= bound : ratio <= bound;
  if (!ok) b->missed++;
  printf("| %-52s | %12.1f %-6s | %12.1f | %6.2f | %s %.2f | %s |\n", what, ours, unit, limit, ratio,
         at_least ? ">=" : "<=", bound, ok ? "yes" : "NO");
  (void)fflush(stdout);
}

// The same figure beside another limit, for the reader: no bound.
static void note(const char *what, double ours, double limit, const char *unit) {
  printf("| %-52s | %12.1f %-6s | %12.1f | %6.2f | | |\n", what, ours, unit, limit, ours / limit);
  (void)fflush(stdout);
}

static const char *document_json(struct arena *a, const char *key, int value) {
  return arena_printf(a, "{\"%s\":%d,\"status\":\"paid\",\"amount\":%d,\"pad\":\"%0200d\"}", key, value, value % 997,
                      0);
}

// Unordered batches of a thousand documents of 277 bytes; returns the seconds spent in the inserts.
static double insert_many(struct bench *b, const char *coll, int from, int to) {
  double spent = 0;
  for (int start = from; start < to; start += 1000) {
    arena_reset(b->arena);
    bson_t *command = arena_bson(b->arena), documents;
    BSON_APPEND_UTF8(command, "insert", coll);
    BSON_APPEND_BOOL(command, "ordered", false);
    BSON_APPEND_ARRAY_BEGIN(command, "documents", &documents);
    for (int i = start; i < start + 1000 && i < to; i++) {
      char index[16];
      bson_oid_t oid;
      bson_oid_init(&oid, NULL);
      (void)snprintf(index, sizeof index, "%d", i - start);
      bson_t doc;
      BSON_APPEND_DOCUMENT_BEGIN(&documents, index, &doc);
      BSON_APPEND_OID(&doc, "_id", &oid);
      BSON_APPEND_INT32(&doc, "k", i);
      BSON_APPEND_UTF8(&doc, "status", "paid");
      BSON_APPEND_INT32(&doc, "amount", i % 997);
      BSON_APPEND_UTF8(&doc, "pad", arena_printf(b->arena, "%0*d", 207, 0));
      bson_append_document_end(&documents, &doc);
    }
    bson_append_array_end(command, &documents);
    double begun = now_us();
    (void)client_call(&b->client, b->arena, "bench", command, false);
    spent += (now_us() - begun) / 1e6;
  }
  return spent;
}

static void point_reads(struct bench *b) {
  enum { ROUNDS = 5000 };
  bson_t *find = arena_bson(b->arena), filter;
  BSON_APPEND_UTF8(find, "find", "points");
  BSON_APPEND_DOCUMENT_BEGIN(find, "filter", &filter);
  BSON_APPEND_INT32(&filter, "k", 4711);
  bson_append_document_end(find, &filter);
  struct buf message = {0};
  client_message(&message, "bench", find);
  double *times = calloc(ROUNDS, sizeof *times);
  for (int i = 0; i < ROUNDS; i++) {
    double start = now_us();
    write_all(b->client.fd, message.data, message.len);
    read_message(b->client.fd, &b->client.in);
    times[i] = now_us() - start;
  }
  size_t reply = b->client.in.len;
  double ours = median(times, ROUNDS), ping = 2 * limit_ping_pong_us(message.len, reply, ROUNDS);
  row(b, "point read, one client (us; two ping-pongs)", ours, ping, "us", ours / ping, 1.5, false);
  note("  beside a bare relay and echo (us)", ours, limit_chain_us(message.len, reply, ROUNDS, NULL), "us");
  double rate = load_per_s(b->router, message.data, message.len, 64, 3);
  double echo = limit_two_hop_per_s(message.len, reply, 64, 3);
  row(b, "point reads, 64 clients (per s; two-hop echo)", rate, echo, "/s", rate / echo, 0.40, true);
  free(times);
  buf_free(&message);
}

static void single_inserts(struct bench *b) {
  enum { ROUNDS = 1000 };
  double *times = calloc(ROUNDS, sizeof *times);
  for (int i = 0; i < ROUNDS; i++) {
    arena_reset(b->arena);
    const char *doc = document_json(b->arena, "k", 1000000 + i);
    bson_error_t why;
    bson_t *command = bson_new_from_json(
        (const uint8_t *)arena_printf(b->arena, "{\"insert\":\"points\",\"documents\":[%s]}", doc), -1, &why);
    double start = now_us();
    (void)client_call(&b->client, b->arena, "bench", command, false);
    times[i] = now_us() - start;
    bson_destroy(command);
  }
  size_t request = b->client.out.len, reply = b->client.in.len;
  double ours = median(times, ROUNDS);
  double sync = limit_fdatasync_us(b->folder, ROUNDS), ping = 2 * limit_ping_pong_us(request, reply, ROUNDS);
  row(b, "durable insert, one client (us; fdatasync + ping-pongs)", ours, sync + ping, "us", ours / (sync + ping), 2,
      false);
  note("  beside a bare relay and an echo that syncs (us)", ours, limit_chain_us(request, reply, ROUNDS, b->folder),
       "us");
  free(times);
}

static void bulk_inserts(struct bench *b) {
  enum { ROWS = 100000 };
  (void)client_json(&b->client, b->arena, "admin", "{\"shardCollection\":\"bench.bulk\",\"key\":{\"k\":\"hashed\"}}");
  (void)insert_many(b, "bulk", 0, 5000); // warm
  double ours = ROWS / insert_many(b, "bulk", 5000, 5000 + ROWS), limit = limit_sqlite_rows_per_s(b->folder, ROWS);
  row(b, "insertMany of 1000 unordered, 2 shards (docs/s; SQLite)", ours, limit, "/s", ours / limit, 0.60, true);
}

static double critical_section_ms(struct bench *b) {
  struct client shard;
  client_open(&shard, b->shard1);
  const bson_t *status = client_json(&shard, b->arena, "admin", "{\"serverStatus\":1}");
  bson_t sharding;
  double ms =
      doc_doc(status, "shardingStatistics", &sharding) ? doc_double(&sharding, "totalCriticalSectionTimeMillis", 0) : 0;
  client_close(&shard);
  return ms;
}

static void move(struct bench *b, const char *coll, int rows, const char *what) {
  (void)client_json(&b->client, b->arena, "admin", "{\"shardCollection\":\"bench.%s\",\"key\":{\"k\":1}}", coll);
  (void)insert_many(b, coll, 0, rows + 1000);
  (void)client_json(&b->client, b->arena, "admin", "{\"split\":\"bench.%s\",\"middle\":{\"k\":%d}}", coll, rows);
  double blocked = critical_section_ms(b), start = now_us();
  (void)client_json(&b->client, b->arena, "admin",
                    "{\"moveRange\":\"bench.%s\",\"min\":{\"k\":{\"$minKey\":1}},\"max\":{\"k\":%d},\"toShard\":"
                    "\"sh2\",\"forceJumbo\":true}",
                    coll, rows);
  double ours = (now_us() - start) / 1e6, limit = limit_sqlite_copy_s(b->folder, rows);
  blocked = critical_section_ms(b) - blocked;
  row(b, arena_printf(b->arena, "moveRange of %s (ms; SQLite file to file)", what), ours * 1e3, limit * 1e3, "ms",
      ours / limit, 2, false);
  row(b, arena_printf(b->arena, "  writes blocked meanwhile (ms)"), blocked, 10, "ms", blocked / 10, 1, false);
}

// The keys of a million lookups in random order, one after another in memory: a router's key comes from a command that
// it has just read, so that fetching it is not the table's time.
static struct key *shuffled_keys(struct arena *a, const struct chunk *chunks, size_t n, size_t lookups) {
  struct key *keys = arena_alloc(a, lookups * sizeof *keys);
  for (size_t i = 0; i < lookups; i++) {
    struct key k = chunks[(i * UINT64_C(2654435761)) % n].min;
    keys[i] = (struct key){arena_memdup(a, k.data, k.len), k.len};
  }
  return keys;
}

static void routing_table(struct bench *b) {
  enum { CHUNKS = 1000000, LOOKUPS = 1000000 };
  bson_t pattern = BSON_INITIALIZER;
  BSON_APPEND_INT32(&pattern, "k", 1);
  struct arena *a = arena_new();
  struct chunk *chunks = arena_zalloc(a, CHUNKS * sizeof *chunks);
  struct buf key = {0};
  for (int i = 0; i <= CHUNKS; i++) {
    bson_t *bound = bson_new();
    if (i == 0)
      BSON_APPEND_MINKEY(bound, "k");
    else if (i == CHUNKS)
      BSON_APPEND_MAXKEY(bound, "k");
    else
      BSON_APPEND_INT32(bound, "k", i * 1000);
    const bson_t *kept = doc_copy(a, bound);
    bson_destroy(bound);
    buf_clear(&key);
    key_append_doc(&key, kept, NULL);
    struct key encoded = key_copy(a, &key);
    if (i < CHUNKS) {
      chunks[i].min = encoded;
      chunks[i].min_doc = kept;
      chunks[i].shard = i % 2 ? "sh1" : "sh2";
      chunks[i].major = 1;
      chunks[i].minor = (uint32_t)i;
    }
    if (i > 0) {
      chunks[i - 1].max = encoded;
      chunks[i - 1].max_doc = kept;
    }
  }
  struct chunk_version generation = {.timestamp = 1};
  struct error err;
  struct chunk_map *map = chunk_map_make(&pattern, &generation, chunks, CHUNKS, &err);
  if (!map) give_up("routing table: %s", err.message);
  double bytes = (double)chunk_map_memory(map) / CHUNKS;
  row(b, "routing table of a million chunks: bytes a chunk", bytes, 100, "B", bytes / 100, 1, false);
  const struct key *keys = shuffled_keys(a, chunks, CHUNKS, LOOKUPS);
  double start = cpu_us();
  size_t found = 0;
  for (int i = 0; i < LOOKUPS; i++) {
    struct chunk c;
    chunk_map_find(map, keys[i], &c);
    found += c.shard[2] == '1';
  }
  double lookup = (cpu_us() - start) / LOOKUPS;
  if (found == 0) give_up("routing table: nothing found");
  row(b, "  lookup (us)", lookup, 1, "us", lookup, 1, false);
  struct chunk moved[2] = {chunks[500000], chunks[700000]};
  moved[0].shard = "sh1";
  moved[0].major = moved[1].major = 2;
  moved[0].minor = 0;
  moved[1].minor = 1;
  start = cpu_us();
  struct chunk_map *fresh = chunk_map_update(map, moved, 2, &err);
  double refresh = (cpu_us() - start) / 1e3;
  if (!fresh) give_up("routing table: %s", err.message);
  row(b, "  refresh after one move (ms)", refresh, 5, "ms", refresh / 5, 1, false);
  chunk_map_unref(fresh);
  chunk_map_unref(map);
  buf_free(&key);
  arena_free(a);
  bson_destroy(&pattern);
}

static void move_small(struct bench *b) {
  move(b, "small", 3784, "1 MB");
}

static void move_large(struct bench *b) {
  move(b, "large", 484000, "128 MB");
}

static const struct {
  const char *name;
  void (*measure)(struct bench *b);
} groups[] = {
    {"table", routing_table}, {"reads", point_reads},     {"inserts", single_inserts},
    {"bulk", bulk_inserts},   {"move-small", move_small}, {"move-large", move_large},
};

static bool chosen(const char *name, char *const *names, int n) {
  for (int i = 0; i < n; i++)
    if (!strcmp(names[i], name)) return true;
  return n == 0;
}

int main(int argc, char **argv) {
  if (argc < 6) give_up("usage: bench ROUTER_PORT SHARD1_PORT FOLDER STARTUP_MS RSS_KB [ROWS...]");
  struct bench b = {.router = atoi(argv[1]), .shard1 = atoi(argv[2]), .folder = argv[3], .arena = arena_new()};
  double startup = atof(argv[4]), rss = atof(argv[5]) / 1024;
  client_open(&b.client, b.router);
  printf("| what | ours | limit | ratio | wanted | met |\n| --- | --- | --- | --- | --- | --- |\n");
  row(&b, "idle cluster of four processes: up (ms)", startup, 1000, "ms", startup / 1000, 1, false);
  row(&b, "idle cluster: resident memory together (MB)", rss, 60, "MB", rss / 60, 1, false);
  (void)client_json(&b.client, b.arena, "admin", "{\"balancerStop\":1}");
  (void)client_json(&b.client, b.arena, "admin", "{\"enableSharding\":\"bench\",\"primaryShard\":\"sh1\"}");
  (void)client_json(&b.client, b.arena, "admin", "{\"shardCollection\":\"bench.points\",\"key\":{\"k\":1}}");
  (void)insert_many(&b, "points", 0, 10000);
  for (size_t i = 0; i < sizeof groups / sizeof *groups; i++)
    if (chosen(groups[i].name, argv + 6, argc - 6)) groups[i].measure(&b);
  client_close(&b.client);
  arena_free(b.arena);
  printf("\n%d rows miss their bound\n", b.missed);
  return 0;
}
