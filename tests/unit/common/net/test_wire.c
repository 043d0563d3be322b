// Bytes on a server's connections: pipelining, messages in pieces, hostile bytes, old queries, compression, slow
// readers, streams.
#include "server_fixture.h"

static uint8_t scratch[CHANNEL_READ_BYTES];

// A connection to the fixture's server, what will be sent over it, and what came last.
struct wire {
  struct fixture *f;
  struct operation *op;
  struct channel *c;
  struct buf out;
  struct message m;
};

static struct channel *dial(struct wire *w) {
  struct error err;
  struct channel *c = channel_open(w->op, w->f->host, scratch, NULL, loop_now_ms(w->op->loop) + 10000, &err);
  EXPECT(c != NULL);
  return c;
}

static void add_command(struct buf *to, int32_t id, uint32_t flags, bson_t *body) {
  BSON_APPEND_UTF8(body, "$db", "admin");
  message_write(to, id, 0, flags, body, NULL, 0);
  bson_destroy(body);
}

// Sends what was added, and forgets it.
static bool flush(struct wire *w) {
  bool sent;
  bool ok = channel_send(w->c, &w->out, &sent);
  buf_clear(&w->out);
  return ok;
}

// The next message, as w->m.
static bool receive(struct wire *w) {
  struct error err;
  struct buf bytes;
  struct channel *c = w->c;
  if (!channel_receive(w->op, c, loop_now_ms(w->op->loop) + 10000, &bytes, &err)) return false;
  uint8_t *data = arena_memdup(w->op->arena, bytes.data, bytes.len);
  size_t len = bytes.len;
  buf_free(&bytes);
  // What arrived behind it goes back into the frame.
  struct buf early = c->early;
  c->early = (struct buf){0};
  size_t used = 0;
  if (early.len) EXPECT(frame_feed(&c->frame, early.data, early.len, &used, &err));
  if (used < early.len) buf_add(&c->early, early.data + used, early.len - used);
  buf_free(&early);
  return message_parse(w->op->arena, data, len, &w->m, &err);
}

static bool answers(struct wire *w) {
  struct error err;
  const bson_t *reply;
  return call(w->f, w->op, BCON_NEW("ping", BCON_INT32(1)), &reply, &err);
}

static void a_moment(struct operation *op, int ms) {
  struct error err;
  EXPECT(op_sleep(op, ms, &err));
}

// It becomes true within about five seconds.
#define EVENTUALLY(op, condition)                                                                                      \
  do {                                                                                                                 \
    for (int waited = 0; waited < 5000 && !(condition); waited++) a_moment(op, 1);                                     \
    EXPECT(condition);                                                                                                 \
  } while (0)

struct wire_test {
  void (*run)(struct wire *w);
};

static void run_with_wire(struct operation *op, void *arg) {
  const struct wire_test *t = arg;
  struct fixture f;
  setup(&f, op);
  struct wire w = {.f = &f, .op = op};
  w.c = dial(&w);
  t->run(&w);
  if (w.c) channel_close(w.c);
  buf_free(&w.out);
  teardown(&f, op);
}

static void with_wire(void (*run)(struct wire *w)) {
  in_loop(run_with_wire, &(struct wire_test){run});
}

static void pipelining(struct wire *w) {
  for (int i = 1; i <= 100; i++) {
    add_command(&w->out, i, 0, BCON_NEW("ping", BCON_INT32(1)));
    add_command(&w->out, 1000 + i, MSG_MORE_TO_COME, BCON_NEW("note", BCON_INT32(1)));
  }
  EXPECT(flush(w));
  for (int i = 1; i <= 100; i++) EXPECT(receive(w) && w->m.response_to == i); // in order, none for the notes
  EXPECT(w->f->writes >= 99);
  // Sent and gone: what expects no reply is done all the same.
  w->f->writes = 0;
  for (int i = 0; i < 10; i++) add_command(&w->out, i, MSG_MORE_TO_COME, BCON_NEW("note", BCON_INT32(1)));
  EXPECT(flush(w));
  channel_close(w->c);
  w->c = NULL;
  EVENTUALLY(w->op, w->f->writes >= 10);
}

static void test_pipelining(void **state) {
  with_wire(pipelining);
}

static void dribble(struct wire *w) {
  struct buf whole = {0};
  add_command(&whole, 7, 0, BCON_NEW("ping", BCON_INT32(1)));
  for (size_t i = 0; i < whole.len; i++) { // a byte a packet
    buf_add(&w->out, whole.data + i, 1);
    EXPECT(flush(w));
    if (i % 8 == 0) a_moment(w->op, 1);
  }
  EXPECT(receive(w) && w->m.response_to == 7);
  buf_free(&whole);
}

static void test_dribble(void **state) {
  with_wire(dribble);
}

// On a connection of its own, which the server answers and closes.
static void send_hostile(struct wire *w, const void *data, size_t len, int32_t expected_code) {
  struct wire own = {.f = w->f, .op = w->op, .c = dial(w)};
  buf_add(&own.out, data, len);
  EXPECT(flush(&own));
  bool answered = receive(&own);
  EXPECT(answered && doc_i64(&own.m.body, "code", 0) == expected_code);
  EVENTUALLY(w->op, own.c->fail_code);
  channel_close(own.c);
  buf_free(&own.out);
}

static void hostile(struct wire *bystander) {
  static const uint8_t negative[16] = {0xff, 0xff, 0xff, 0xff, 9, 0, 0, 0, 0, 0, 0, 0, 0xdd, 7, 0, 0};
  static const uint8_t huge[16] = {0, 0, 0, 0x7f, 9, 0, 0, 0, 0, 0, 0, 0, 0xdd, 7, 0, 0};
  static const uint8_t unknown[16] = {16, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4};
  static const uint8_t no_sections[20] = {20, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 0xdd, 7, 0, 0, 0, 0, 0, 0};
  static const uint8_t bad_document[30] = {30, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0,  0,   0xdd, 7, 0,
                                           0,  0, 0, 0, 0, 0, 9, 0, 0, 0, 99, 'a', 0,    1, 0};
  send_hostile(bystander, negative, sizeof negative, ERR_ProtocolError);
  send_hostile(bystander, huge, sizeof huge, ERR_ProtocolError);
  send_hostile(bystander, unknown, sizeof unknown, ERR_ProtocolError);
  send_hostile(bystander, no_sections, sizeof no_sections, ERR_ProtocolError);
  send_hostile(bystander, bad_document, sizeof bad_document, ERR_InvalidBSON);
  send_hostile(bystander, "GET / HTTP/1.1\r\nHost: x\r\n\r\n", 27, ERR_ProtocolError);
  EXPECT(!bystander->c->fail_code);
  EXPECT(answers(bystander));
}

static void test_hostile(void **state) {
  with_wire(hostile);
}

static void add_query(struct buf *to, int32_t id, bson_t *body) {
  struct buf m = {0};
  buf_add_u32le(&m, 0);
  buf_add_u32le(&m, (uint32_t)id);
  buf_add_u32le(&m, 0);
  buf_add_u32le(&m, OP_QUERY);
  buf_add_u32le(&m, 4);
  buf_add(&m, "admin.$cmd", 11);
  buf_add_u32le(&m, 0);
  buf_add_u32le(&m, UINT32_MAX);
  buf_add(&m, bson_get_data(body), body->len);
  for (int i = 0; i < 4; i++) m.data[i] = (uint8_t)(m.len >> (8 * i));
  buf_add(to, m.data, m.len);
  buf_free(&m);
  bson_destroy(body);
}

static void old_queries(struct wire *w) {
  add_query(&w->out, 1, BCON_NEW("isMaster", BCON_INT32(1), "helloOk", BCON_BOOL(true)));
  add_query(&w->out, 2, BCON_NEW("ping", BCON_INT32(1)));
  EXPECT(flush(w));
  EXPECT(receive(w) && w->m.opcode == OP_REPLY && doc_bool(&w->m.body, "isWritablePrimary", false));
  EXPECT(receive(w) && w->m.opcode == OP_REPLY && doc_i64(&w->m.body, "code", 0) == ERR_UnsupportedOpQueryCommand);
}

static void test_op_query(void **state) {
  with_wire(old_queries);
}

// A client that asks for much and reads nothing costs a bounded amount of memory: 100 requests, so many at once.
static void read_nothing(struct wire *w, int at_once) {
  (void)uv_read_stop((uv_stream_t *)&w->c->tcp);
  for (int i = 1; i <= 100; i++) {
    add_command(&w->out, i, 0, BCON_NEW("big", BCON_INT32(1), "bytes", BCON_INT32(1000000)));
    if (i % at_once) continue;
    EXPECT(flush(w));
    a_moment(w->op, at_once == 1 ? 2 : 50);
  }
  bson_t metrics = BSON_INITIALIZER, big;
  dispatcher_metrics(w->f->dispatcher, &metrics);
  EXPECT(doc_doc(&metrics, "big", &big) && doc_i64(&big, "total", 0) < 20);
  bson_destroy(&metrics);
  EXPECT(answers(w)); // the others do not notice
}

static void slow_reader(struct wire *w) {
  read_nothing(w, 100);
}

static void slow_reader_that_asks_slowly(struct wire *w) {
  read_nothing(w, 1);
}

static void test_slow_reader(void **state) {
  with_wire(slow_reader);
  with_wire(slow_reader_that_asks_slowly);
}

// Only what came compressed is answered compressed, once the handshake has agreed on a compressor.
static void compression(struct wire *w) {
  add_command(&w->out, 1, 0, BCON_NEW("agree", BCON_INT32(1)));
  EXPECT(flush(w) && receive(w) && w->m.compressor == COMPRESSOR_NONE);
  add_command(&w->out, 2, 0, BCON_NEW("big", BCON_INT32(1), "bytes", BCON_INT32(5000)));
  EXPECT(flush(w) && receive(w) && w->m.compressor == COMPRESSOR_NONE);
  char *filler = arena_zalloc(w->op->arena, 1001);
  memset(filler, 'x', 1000);
  add_command(&w->out, 3, 0, BCON_NEW("big", BCON_INT32(1), "bytes", BCON_INT32(5000), "filler", BCON_UTF8(filler)));
  EXPECT(message_compress(&w->out, 0, COMPRESSOR_SNAPPY));
  EXPECT(flush(w) && receive(w));
  EXPECT(w->m.compressor == COMPRESSOR_ZLIB && w->m.response_to == 3 && w->m.body.len > 5000);
}

static void test_compression(void **state) {
  with_wire(compression);
}

// One more than may be is closed, the others stay.
static void crowd(struct wire *w) {
  struct channel *more[100];
  for (int i = 0; i < 100; i++) more[i] = dial(w);
  EVENTUALLY(w->op, more[99]->fail_code);
  EXPECT(!more[98]->fail_code);
  for (int i = 0; i < 100; i++) channel_close(more[i]);
}

static void test_too_many_connections(void **state) {
  with_wire(crowd);
}

// --- streams ---

struct streaming {
  struct stream *stream;
  bool open, closed;
  struct buf got;
};

static void stream_open(void *ctx) {
  ((struct streaming *)ctx)->open = true;
}

static void stream_data(void *ctx, const uint8_t *data, size_t len) {
  buf_add(&((struct streaming *)ctx)->got, data, len);
}

static void stream_end(void *ctx) {
  ((struct streaming *)ctx)->closed = true;
}

static struct stream *open_stream(struct fixture *f, const char *command, struct streaming *s) {
  bson_t *hello = BCON_NEW(command, BCON_INT32(1));
  s->stream = remote_stream(f->remotes, f->host, "admin", hello, stream_open, stream_data, stream_end, s);
  bson_destroy(hello);
  return s->stream;
}

static void streams(struct operation *op, void *arg) {
  struct fixture f;
  setup(&f, op);
  struct streaming s = {0}, refused = {0}, quick = {0};
  stream_send(open_stream(&f, "upgrade", &s), "kept until it opens", 19);
  (void)open_stream(&f, "ping2", &refused);
  stream_close(open_stream(&f, "upgrade", &quick));
  EXPECT(!quick.closed); // never inside the call
  EVENTUALLY(op, f.raw_bytes >= 19);
  EXPECT(s.open && f.raw_bytes == 19);
  EXPECT(!strcmp(buf_str(&s.got), "early"));
  EXPECT(refused.closed && !refused.open && quick.closed && !quick.open);
  struct buf much = {0};
  buf_add(&much, arena_zalloc(op->arena, 3000000), 3000000);
  stream_send(s.stream, much.data, much.len);
  buf_free(&much);
  EVENTUALLY(op, f.raw_bytes >= 3000019);
  EXPECT(f.raw_bytes == 3000019);
  stream_close(s.stream);
  EVENTUALLY(op, f.raw_closed);
  EXPECT(s.closed);
  buf_free(&s.got);
  struct streaming last = {0};
  (void)open_stream(&f, "upgrade", &last);
  EVENTUALLY(op, last.open);
  teardown(&f, op);
  a_moment(op, 1);
  EXPECT(last.closed);
  buf_free(&last.got);
}

static void test_streams(void **state) {
  in_loop(streams, NULL);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_pipelining),  cmocka_unit_test(test_dribble),
      cmocka_unit_test(test_hostile),     cmocka_unit_test(test_op_query),
      cmocka_unit_test(test_slow_reader), cmocka_unit_test(test_streams),
      cmocka_unit_test(test_compression), cmocka_unit_test(test_too_many_connections),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
