// Bytes on a server's connections: pipelining, messages in pieces, hostile bytes, old queries, compression, slow
// readers, streams.
#include "server_fixture.h"

static uint8_t scratch[CHANNEL_READ_BYTES];

static struct channel *dial(struct fixture *f, struct operation *op) {
  struct error err;
  struct channel *c = channel_open(op, f->host, scratch, loop_now_ms(op->loop) + 10000, &err);
  EXPECT(c != NULL);
  return c;
}

static void add_command(struct buf *to, int32_t id, uint32_t flags, bson_t *body) {
  BSON_APPEND_UTF8(body, "$db", "admin");
  message_write(to, id, 0, flags, body, NULL, 0);
  bson_destroy(body);
}

static bool receive(struct operation *op, struct channel *c, struct message *m) {
  struct error err;
  struct buf bytes;
  if (!channel_receive(op, c, loop_now_ms(op->loop) + 10000, &bytes, &err)) return false;
  uint8_t *data = arena_memdup(op->arena, bytes.data, bytes.len);
  size_t len = bytes.len;
  buf_free(&bytes);
  // What arrived behind it goes back into the frame.
  struct buf early = c->early;
  c->early = (struct buf){0};
  size_t used = 0;
  if (early.len) EXPECT(frame_feed(&c->frame, early.data, early.len, &used, &err));
  if (used < early.len) buf_add(&c->early, early.data + used, early.len - used);
  buf_free(&early);
  return message_parse(op->arena, data, len, m, &err);
}

static void pipelining(struct operation *op, void *arg) {
  struct fixture f;
  setup(&f, op);
  struct channel *c = dial(&f, op);
  struct buf out = {0};
  struct message m;
  bool sent;
  for (int i = 1; i <= 100; i++) {
    add_command(&out, i, 0, BCON_NEW("ping", BCON_INT32(1)));
    add_command(&out, 1000 + i, MSG_MORE_TO_COME, BCON_NEW("note", BCON_INT32(1)));
  }
  EXPECT(channel_send(c, &out, &sent));
  for (int i = 1; i <= 100; i++) EXPECT(receive(op, c, &m) && m.response_to == i); // in order, none for the notes
  EXPECT(f.writes >= 99);
  // Sent and gone: what expects no reply is done all the same.
  buf_clear(&out);
  f.writes = 0;
  for (int i = 0; i < 10; i++) add_command(&out, i, MSG_MORE_TO_COME, BCON_NEW("note", BCON_INT32(1)));
  EXPECT(channel_send(c, &out, &sent));
  channel_close(c);
  struct error err;
  for (int i = 0; i < 5000 && f.writes < 10; i++) EXPECT(op_sleep(op, 1, &err));
  EXPECT(f.writes >= 10);
  buf_free(&out);
  teardown(&f, op);
}

static void test_pipelining(void **state) {
  in_loop(pipelining, NULL);
}

static void dribble(struct operation *op, void *arg) {
  struct fixture f;
  struct error err;
  struct message m;
  setup(&f, op);
  struct channel *c = dial(&f, op);
  struct buf out = {0}, one = {0};
  add_command(&out, 7, 0, BCON_NEW("ping", BCON_INT32(1)));
  for (size_t i = 0; i < out.len; i++) { // a byte a packet
    bool sent;
    buf_clear(&one);
    buf_add(&one, out.data + i, 1);
    EXPECT(channel_send(c, &one, &sent));
    if (i % 8 == 0) EXPECT(op_sleep(op, 1, &err));
  }
  EXPECT(receive(op, c, &m) && m.response_to == 7);
  channel_close(c);
  buf_free(&out);
  buf_free(&one);
  teardown(&f, op);
}

static void test_dribble(void **state) {
  in_loop(dribble, NULL);
}

static void send_hostile(struct fixture *f, struct operation *op, const void *data, size_t len, int32_t expected_code) {
  struct channel *c = dial(f, op);
  struct buf out = {0};
  struct error err;
  struct message m;
  bool sent;
  buf_add(&out, data, len);
  EXPECT(channel_send(c, &out, &sent));
  bool answered = receive(op, c, &m);
  EXPECT(answered && doc_i64(&m.body, "code", 0) == expected_code);
  for (int i = 0; i < 5000 && !c->fail_code; i++) EXPECT(op_sleep(op, 1, &err));
  EXPECT(c->fail_code); // closed by the server
  channel_close(c);
  buf_free(&out);
}

static void hostile(struct operation *op, void *arg) {
  struct fixture f;
  struct error err;
  const bson_t *reply;
  setup(&f, op);
  struct channel *bystander = dial(&f, op);
  static const uint8_t negative[16] = {0xff, 0xff, 0xff, 0xff, 9, 0, 0, 0, 0, 0, 0, 0, 0xdd, 7, 0, 0};
  static const uint8_t huge[16] = {0, 0, 0, 0x7f, 9, 0, 0, 0, 0, 0, 0, 0, 0xdd, 7, 0, 0};
  static const uint8_t unknown[16] = {16, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4};
  static const uint8_t no_sections[20] = {20, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 0xdd, 7, 0, 0, 0, 0, 0, 0};
  static const uint8_t bad_document[30] = {30, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0,  0,   0xdd, 7, 0,
                                           0,  0, 0, 0, 0, 0, 9, 0, 0, 0, 99, 'a', 0,    1, 0};
  send_hostile(&f, op, negative, sizeof negative, ERR_ProtocolError);
  send_hostile(&f, op, huge, sizeof huge, ERR_ProtocolError);
  send_hostile(&f, op, unknown, sizeof unknown, ERR_ProtocolError);
  send_hostile(&f, op, no_sections, sizeof no_sections, ERR_ProtocolError);
  send_hostile(&f, op, bad_document, sizeof bad_document, ERR_InvalidBSON);
  send_hostile(&f, op, "GET / HTTP/1.1\r\nHost: x\r\n\r\n", 27, ERR_ProtocolError);
  EXPECT(!bystander->fail_code);
  EXPECT(call(&f, op, BCON_NEW("ping", BCON_INT32(1)), &reply, &err));
  channel_close(bystander);
  teardown(&f, op);
}

static void test_hostile(void **state) {
  in_loop(hostile, NULL);
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

static void old_queries(struct operation *op, void *arg) {
  struct fixture f;
  struct message m;
  bool sent;
  setup(&f, op);
  struct channel *c = dial(&f, op);
  struct buf out = {0};
  add_query(&out, 1, BCON_NEW("isMaster", BCON_INT32(1), "helloOk", BCON_BOOL(true)));
  add_query(&out, 2, BCON_NEW("ping", BCON_INT32(1)));
  EXPECT(channel_send(c, &out, &sent));
  EXPECT(receive(op, c, &m) && m.opcode == OP_REPLY && doc_bool(&m.body, "isWritablePrimary", false));
  EXPECT(receive(op, c, &m) && m.opcode == OP_REPLY && doc_i64(&m.body, "code", 0) == ERR_UnsupportedOpQueryCommand);
  channel_close(c);
  buf_free(&out);
  teardown(&f, op);
}

static void test_op_query(void **state) {
  in_loop(old_queries, NULL);
}

// A client that asks for much and reads nothing costs a bounded amount of memory.
static void slow_reader(struct operation *op, void *arg) {
  struct fixture f;
  struct error err;
  const bson_t *reply;
  setup(&f, op);
  struct channel *c = dial(&f, op);
  (void)uv_read_stop((uv_stream_t *)&c->tcp);
  struct buf out = {0};
  bool sent;
  for (int i = 0; i < 100; i++) add_command(&out, i, 0, BCON_NEW("big", BCON_INT32(1), "bytes", BCON_INT32(1000000)));
  EXPECT(channel_send(c, &out, &sent));
  EXPECT(op_sleep(op, 50, &err));
  bson_t metrics = BSON_INITIALIZER, big;
  dispatcher_metrics(f.dispatcher, &metrics);
  EXPECT(doc_doc(&metrics, "big", &big) && doc_i64(&big, "total", 0) < 20);
  bson_destroy(&metrics);
  EXPECT(call(&f, op, BCON_NEW("ping", BCON_INT32(1)), &reply, &err)); // the others do not notice
  channel_close(c);
  buf_free(&out);
  teardown(&f, op);
}

static void test_slow_reader(void **state) {
  in_loop(slow_reader, NULL);
}

// Only what came compressed is answered compressed, once the handshake has agreed on a compressor.
static void compression(struct operation *op, void *arg) {
  struct fixture f;
  struct message m;
  bool sent;
  setup(&f, op);
  struct channel *c = dial(&f, op);
  struct buf out = {0};
  add_command(&out, 1, 0, BCON_NEW("agree", BCON_INT32(1)));
  EXPECT(channel_send(c, &out, &sent) && receive(op, c, &m) && m.compressor == COMPRESSOR_NONE);
  buf_clear(&out);
  add_command(&out, 2, 0, BCON_NEW("big", BCON_INT32(1), "bytes", BCON_INT32(5000)));
  EXPECT(channel_send(c, &out, &sent) && receive(op, c, &m) && m.compressor == COMPRESSOR_NONE);
  buf_clear(&out);
  char *filler = arena_zalloc(op->arena, 1001);
  memset(filler, 'x', 1000);
  add_command(&out, 3, 0, BCON_NEW("big", BCON_INT32(1), "bytes", BCON_INT32(5000), "filler", BCON_UTF8(filler)));
  EXPECT(message_compress(&out, 0, COMPRESSOR_SNAPPY));
  EXPECT(channel_send(c, &out, &sent) && receive(op, c, &m));
  EXPECT(m.compressor == COMPRESSOR_ZLIB && m.response_to == 3 && m.body.len > 5000);
  channel_close(c);
  buf_free(&out);
  teardown(&f, op);
}

static void test_compression(void **state) {
  in_loop(compression, NULL);
}

static void crowd(struct operation *op, void *arg) {
  struct fixture f;
  struct error err;
  setup(&f, op);
  struct channel *c[101];
  for (int i = 0; i < 101; i++) c[i] = dial(&f, op);
  for (int i = 0; i < 5000 && !c[100]->fail_code; i++) EXPECT(op_sleep(op, 1, &err));
  EXPECT(c[100]->fail_code && !c[99]->fail_code); // one more than may be is closed, the others stay
  for (int i = 0; i < 101; i++) channel_close(c[i]);
  teardown(&f, op);
}

static void test_too_many_connections(void **state) {
  in_loop(crowd, NULL);
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
  struct error err;
  setup(&f, op);
  struct streaming s = {0}, refused = {0}, quick = {0};
  stream_send(open_stream(&f, "upgrade", &s), "kept until it opens", 19);
  (void)open_stream(&f, "ping2", &refused);
  stream_close(open_stream(&f, "upgrade", &quick));
  EXPECT(!quick.closed); // never inside the call
  for (int i = 0; i < 5000 && f.raw_bytes < 19; i++) EXPECT(op_sleep(op, 1, &err));
  EXPECT(s.open && f.raw_bytes == 19);
  EXPECT(!strcmp(buf_str(&s.got), "early"));
  EXPECT(refused.closed && !refused.open && quick.closed && !quick.open);
  struct buf much = {0};
  buf_add(&much, arena_zalloc(op->arena, 3000000), 3000000);
  stream_send(s.stream, much.data, much.len);
  buf_free(&much);
  for (int i = 0; i < 5000 && f.raw_bytes < 3000019; i++) EXPECT(op_sleep(op, 1, &err));
  EXPECT(f.raw_bytes == 3000019);
  stream_close(s.stream);
  for (int i = 0; i < 5000 && !f.raw_closed; i++) EXPECT(op_sleep(op, 1, &err));
  EXPECT(s.closed && f.raw_closed);
  buf_free(&s.got);
  struct streaming last = {0};
  (void)open_stream(&f, "upgrade", &last);
  for (int i = 0; i < 5000 && !last.open; i++) EXPECT(op_sleep(op, 1, &err));
  teardown(&f, op);
  EXPECT(op_sleep(op, 1, &err));
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
