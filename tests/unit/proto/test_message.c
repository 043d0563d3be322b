// The wire format: round trips, and every form of message that is none.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

#include "common/bson/doc.h"
#include "proto/bytes.h"
#include "proto/message.h"
#include "proto/reply.h"

struct test {
  struct arena *a;
  struct buf bytes;
  struct error err;
  struct message m;
};

static int setup(void **state) {
  static struct test t;
  memset(&t, 0, sizeof t);
  t.a = arena_new();
  *state = &t;
  return 0;
}

static int teardown(void **state) {
  struct test *t = *state;
  buf_free(&t->bytes);
  arena_free(t->a);
  return 0;
}

static bool parse(struct test *t) {
  return message_parse(t->a, t->bytes.data, t->bytes.len, &t->m, &t->err);
}

static void fix_length(struct test *t) {
  put_u32(t->bytes.data, (uint32_t)t->bytes.len);
}

static void header(struct test *t, int32_t opcode) {
  buf_add_u32le(&t->bytes, 0);
  buf_add_u32le(&t->bytes, 77);
  buf_add_u32le(&t->bytes, 0);
  buf_add_u32le(&t->bytes, (uint32_t)opcode);
}

static void add_doc(struct buf *b, bson_t *doc) {
  buf_add(b, bson_get_data(doc), doc->len);
  bson_destroy(doc);
}

// An insert with both section kinds.
static void write_insert(struct test *t) {
  struct buf docs = {0};
  add_doc(&docs, BCON_NEW("_id", BCON_INT32(1)));
  add_doc(&docs, BCON_NEW("_id", BCON_INT32(2), "text", "two"));
  struct sequence s = {.name = "documents", .data = docs.data, .len = docs.len, .count = 2};
  bson_t *body = BCON_NEW("insert", "c", "$db", "test");
  message_write(&t->bytes, 5, 6, MSG_MORE_TO_COME, body, &s, 1);
  bson_destroy(body);
  buf_free(&docs);
}

static void check_insert(struct test *t) {
  assert_true(parse(t));
  assert_int_equal(t->m.request_id, 5);
  assert_int_equal(t->m.response_to, 6);
  assert_int_equal(t->m.opcode, OP_MSG);
  assert_int_equal(t->m.flags & MSG_MORE_TO_COME, MSG_MORE_TO_COME);
  assert_string_equal(doc_str(&t->m.body, "insert", ""), "c");
  assert_int_equal(t->m.n_sequences, 1);
  assert_string_equal(t->m.sequences[0].name, "documents");
  assert_int_equal(t->m.sequences[0].count, 2);
  bson_t doc;
  size_t at = 0, n = 0;
  while (sequence_next(&t->m.sequences[0], &at, &doc)) assert_int_equal(doc_i64(&doc, "_id", 0), ++n);
  assert_int_equal(n, 2);
}

static void test_round_trip(void **state) {
  struct test *t = *state;
  write_insert(t);
  check_insert(t);
  size_t total;
  assert_true(message_length(t->bytes.data, &total, &t->err));
  assert_int_equal(total, t->bytes.len);
}

static void test_joined(void **state) {
  struct test *t = *state;
  bson_t *body = BCON_NEW("find", "c", "limit", BCON_INT32(3)), *more = BCON_NEW("$db", "test", "x", BCON_INT32(1));
  bson_t *both = BCON_NEW("find", "c", "limit", BCON_INT32(3), "$db", "test", "x", BCON_INT32(1));
  message_write_joined(&t->bytes, 1, 0, 0, body, more, NULL, 0);
  assert_true(parse(t));
  assert_true(doc_equal_bytes(&t->m.body, both));
  bson_destroy(body);
  bson_destroy(more);
  bson_destroy(both);
}

static void test_op_reply(void **state) {
  struct test *t = *state;
  bson_t *body = BCON_NEW("ok", BCON_DOUBLE(1));
  message_write_op_reply(&t->bytes, 9, 8, body);
  assert_true(parse(t));
  assert_int_equal(t->m.opcode, OP_REPLY);
  assert_int_equal(t->m.response_to, 8);
  assert_true(doc_equal_bytes(&t->m.body, body));
  assert_int_equal(get_u32(t->bytes.data + 32), 1); // numberReturned: 0 breaks Node's parser
  bson_destroy(body);
}

static void test_op_query(void **state) {
  struct test *t = *state;
  header(t, OP_QUERY);
  buf_add_u32le(&t->bytes, 4);
  buf_add(&t->bytes, "admin.$cmd", 11);
  buf_add_u32le(&t->bytes, 0);
  buf_add_u32le(&t->bytes, UINT32_MAX);
  add_doc(&t->bytes, BCON_NEW("ismaster", BCON_INT32(1)));
  fix_length(t);
  assert_true(parse(t));
  assert_int_equal(t->m.opcode, OP_QUERY);
  assert_int_equal(t->m.flags, 4);
  assert_string_equal(t->m.query_ns, "admin.$cmd");
  assert_true(doc_has(&t->m.body, "ismaster"));
  add_doc(&t->bytes, BCON_NEW("field", BCON_INT32(1))); // a selector
  fix_length(t);
  assert_true(parse(t));
  buf_add_byte(&t->bytes, 0);
  fix_length(t);
  assert_false(parse(t));
}

// --- what must be refused ---

static void test_truncated_everywhere(void **state) {
  struct test *t = *state;
  write_insert(t);
  size_t whole = t->bytes.len;
  uint8_t *copy = arena_memdup(t->a, t->bytes.data, whole);
  for (size_t n = 0; n < whole; n++) {
    // In a block of exactly that size, so that the sanitizer sees a byte too far; with the true and with a fitting
    // length.
    uint8_t *cut = malloc(n ? n : 1);
    memcpy(cut, copy, n);
    assert_false(message_parse(t->a, cut, n, &t->m, &t->err));
    assert_int_equal(t->m.request_id, n >= 16 ? 5 : 0);
    if (n >= 16) {
      put_u32(cut, (uint32_t)n);
      // Cut between its two sections it is a message again.
      bool valid = n == 21 + get_u32(copy + 21);
      assert_int_equal(message_parse(t->a, cut, n, &t->m, &t->err), valid);
    }
    free(cut);
  }
}

static void refuse_length(struct test *t, uint32_t len, uint32_t opcode) {
  uint8_t head[16] = {0};
  size_t total;
  put_u32(head, len);
  put_u32(head + 12, opcode);
  assert_false(message_length(head, &total, &t->err));
  assert_int_equal(t->err.code, ERR_ProtocolError);
}

static void test_bad_headers(void **state) {
  struct test *t = *state;
  refuse_length(t, 15, OP_MSG);
  refuse_length(t, 0, OP_MSG);
  refuse_length(t, UINT32_MAX, OP_MSG);
  refuse_length(t, MESSAGE_MAX_BYTES + 1, OP_MSG);
  refuse_length(t, 100, 0);
  refuse_length(t, 100, 2010);
  refuse_length(t, 100, 2002);
  assert_non_null(strstr(t->err.message, "OP_INSERT"));
}

static void start_msg(struct test *t, uint32_t flags) {
  buf_clear(&t->bytes);
  header(t, OP_MSG);
  buf_add_u32le(&t->bytes, flags);
}

static void add_body(struct test *t) {
  buf_add_byte(&t->bytes, 0);
  add_doc(&t->bytes, BCON_NEW("ping", BCON_INT32(1)));
}

static void add_sequence(struct test *t, const char *name, uint32_t announced, const void *data, size_t len) {
  buf_add_byte(&t->bytes, 1);
  buf_add_u32le(&t->bytes, announced);
  buf_add(&t->bytes, name, strlen(name) + 1);
  buf_add(&t->bytes, data, len);
}

static void refuse(struct test *t, int32_t code) {
  fix_length(t);
  assert_false(parse(t));
  assert_int_equal(t->err.code, code);
  assert_int_equal(t->m.request_id, 77);
}

static void test_bad_sections(void **state) {
  struct test *t = *state;
  start_msg(t, 0);
  refuse(t, ERR_ProtocolError); // no body
  start_msg(t, 4);              // an unknown flag that must be known
  add_body(t);
  refuse(t, ERR_ProtocolError);
  start_msg(t, 0);
  add_body(t);
  add_body(t); // two bodies
  refuse(t, ERR_ProtocolError);
  start_msg(t, 0);
  add_body(t);
  buf_add_byte(&t->bytes, 2); // no such kind
  refuse(t, ERR_ProtocolError);
  start_msg(t, 0);
  add_sequence(t, "documents", 4 + 10, "", 0); // no body beside it
  refuse(t, ERR_ProtocolError);
  static const uint32_t lengths[] = {0, 3, 4, 5, 13, 15, 1000, UINT32_MAX};
  for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
    start_msg(t, 0);
    add_body(t);
    add_sequence(t, "documents", lengths[i], "", 0);
    refuse(t, ERR_ProtocolError);
  }
  start_msg(t, 0);
  add_body(t);
  add_sequence(t, "documents", 4 + 10, "", 0);
  add_sequence(t, "documents", 4 + 10, "", 0); // twice
  refuse(t, ERR_ProtocolError);
  start_msg(t, 0);
  add_body(t);
  for (char name[] = "a"; name[0] <= 'e'; name[0]++) add_sequence(t, name, 6, "", 0);
  refuse(t, ERR_ProtocolError);       // too many
  start_msg(t, 0x10000 | 0x20000000); // optional flags may be unknown; an empty sequence is one
  add_body(t);
  add_sequence(t, "documents", 4 + 10, "", 0);
  fix_length(t);
  assert_true(parse(t));
  assert_int_equal(t->m.sequences[0].count, 0);
}

static void test_bad_documents(void **state) {
  struct test *t = *state;
  static const uint8_t bad_type[] = {9, 0, 0, 0, 99, 'a', 0, 1, 0}, short_doc[] = {6, 0, 0, 0, 0},
                       tiny[] = {4, 0, 0, 0}, bad_utf8[] = {15, 0, 0, 0, 2, 'a', 0, 3, 0, 0, 0, 0xc3, 0x28, 0, 0};
  start_msg(t, 0);
  buf_add_byte(&t->bytes, 0);
  buf_add(&t->bytes, bad_type, sizeof bad_type);
  refuse(t, ERR_InvalidBSON);
  start_msg(t, 0);
  buf_add_byte(&t->bytes, 0);
  buf_add(&t->bytes, short_doc, sizeof short_doc);
  refuse(t, ERR_ProtocolError);
  start_msg(t, 0);
  buf_add_byte(&t->bytes, 0);
  buf_add(&t->bytes, tiny, sizeof tiny);
  refuse(t, ERR_ProtocolError);
  start_msg(t, 0);
  add_body(t);
  add_sequence(t, "d", 6 + sizeof bad_utf8, bad_utf8, sizeof bad_utf8);
  refuse(t, ERR_InvalidBSON);
  // Nested deeper than anything is.
  struct buf deep = {0};
  for (int i = 0; i < 300; i++) {
    buf_add_u32le(&deep, (uint32_t)(5 + (299 - i) * 8));
    if (i < 299) buf_add(&deep, "\003a", 3);
  }
  for (int i = 0; i < 300; i++) buf_add_byte(&deep, 0);
  start_msg(t, 0);
  buf_add_byte(&t->bytes, 0);
  buf_add(&t->bytes, deep.data, deep.len);
  buf_free(&deep);
  refuse(t, ERR_Overflow);
}

// --- checksums ---

static void test_checksum(void **state) {
  struct test *t = *state;
  assert_int_equal(crc32c(0, (const uint8_t *)"123456789", 9),
                   0xE3069283); // the value of RFC 3720 and of every CRC catalogue
  start_msg(t, MSG_CHECKSUM);
  add_body(t);
  put_u32(t->bytes.data, (uint32_t)t->bytes.len + 4);
  buf_add_u32le(&t->bytes, crc32c(0, t->bytes.data, t->bytes.len));
  assert_true(parse(t));
  assert_true(doc_has(&t->m.body, "ping"));
  for (size_t i = 4; i < t->bytes.len; i++) { // no byte can change
    t->bytes.data[i] ^= 0x10;
    assert_false(parse(t));
    t->bytes.data[i] ^= 0x10;
  }
  start_msg(t, MSG_CHECKSUM); // no room for one
  buf_add(&t->bytes, "\0\0", 2);
  refuse(t, ERR_ProtocolError);
}

// --- compression ---

static void test_compression(void **state) {
  struct test *t = *state;
  static const enum compressor all[] = {COMPRESSOR_SNAPPY, COMPRESSOR_ZLIB, COMPRESSOR_ZSTD};
  char *text = arena_alloc(t->a, 10001);
  memset(text, 'x', 10000);
  text[10000] = 0;
  for (size_t i = 0; i < 3; i++) {
    bson_t *body = BCON_NEW("find", BCON_UTF8(text), "$db", "test");
    buf_clear(&t->bytes);
    buf_add(&t->bytes, "before", 6); // a message that is there already stays as it is
    message_write(&t->bytes, 5, 6, 0, body, NULL, 0);
    size_t plain = t->bytes.len;
    assert_true(message_compress(&t->bytes, 6, all[i]));
    assert_true(t->bytes.len < plain / 4);
    assert_memory_equal(t->bytes.data, "before", 6);
    assert_true(message_parse(t->a, t->bytes.data + 6, t->bytes.len - 6, &t->m, &t->err));
    assert_int_equal(t->m.compressor, all[i]);
    assert_int_equal(t->m.opcode, OP_MSG);
    assert_int_equal(t->m.request_id, 5);
    assert_int_equal(t->m.response_to, 6);
    assert_true(doc_equal_bytes(&t->m.body, body));
    bson_destroy(body);
    for (size_t n = 16; n < t->bytes.len - 6; n++) { // cut anywhere, with a fitting length
      uint8_t *cut = malloc(n);
      memcpy(cut, t->bytes.data + 6, n);
      put_u32(cut, (uint32_t)n);
      assert_false(message_parse(t->a, cut, n, &t->m, &t->err));
      free(cut);
    }
  }
}

static void test_not_compressed(void **state) {
  struct test *t = *state;
  static const char *const names[] = {"hello", "isMaster", "saslStart", "saslContinue", "createUser"};
  char *text = arena_alloc(t->a, 10001);
  memset(text, 'x', 10000);
  text[10000] = 0;
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    bson_t *body = BCON_NEW(names[i], BCON_UTF8(text));
    buf_clear(&t->bytes);
    message_write(&t->bytes, 1, 0, 0, body, NULL, 0);
    assert_false(message_compress(&t->bytes, 0, COMPRESSOR_ZLIB));
    assert_true(parse(t));
    bson_destroy(body);
  }
  bson_t *body = BCON_NEW("ping", BCON_INT32(1)); // does not get smaller
  buf_clear(&t->bytes);
  message_write(&t->bytes, 1, 0, 0, body, NULL, 0);
  assert_false(message_compress(&t->bytes, 0, COMPRESSOR_ZLIB));
  assert_false(message_compress(&t->bytes, 0, COMPRESSOR_NONE));
  assert_true(parse(t));
  bson_destroy(body);
  assert_int_equal(compressor_by_name("zlib"), COMPRESSOR_ZLIB);
  assert_int_equal(compressor_by_name("snappy"), COMPRESSOR_SNAPPY);
  assert_int_equal(compressor_by_name("zstd"), COMPRESSOR_ZSTD);
  assert_int_equal(compressor_by_name("lz4"), COMPRESSOR_NONE);
}

static void compressed(struct test *t, uint32_t opcode, uint32_t size, uint8_t compressor, const void *data,
                       size_t len) {
  buf_clear(&t->bytes);
  header(t, OP_COMPRESSED);
  buf_add_u32le(&t->bytes, opcode);
  buf_add_u32le(&t->bytes, size);
  buf_add_byte(&t->bytes, compressor);
  buf_add(&t->bytes, data, len);
}

static void test_bad_compression(void **state) {
  struct test *t = *state;
  start_msg(t, 0);
  add_body(t);
  size_t len = t->bytes.len - 16;
  uint8_t *plain = arena_memdup(t->a, t->bytes.data + 16, len);
  compressed(t, OP_MSG, (uint32_t)len, 0, plain, len); // compressor 0: as it is
  fix_length(t);
  assert_true(parse(t));
  compressed(t, OP_COMPRESSED, (uint32_t)len, 0, plain, len); // in itself
  refuse(t, ERR_ProtocolError);
  compressed(t, 1234, (uint32_t)len, 0, plain, len);
  refuse(t, ERR_ProtocolError);
  compressed(t, OP_MSG, (uint32_t)len, 4, plain, len); // no such compressor
  refuse(t, ERR_ProtocolError);
  compressed(t, OP_MSG, (uint32_t)len - 1, 0, plain, len);
  refuse(t, ERR_ProtocolError);
  compressed(t, OP_MSG, (uint32_t)len + 1, 0, plain, len);
  refuse(t, ERR_ProtocolError);
  compressed(t, OP_MSG, UINT32_MAX, 2, plain, len);
  refuse(t, ERR_ProtocolError);
  compressed(t, OP_MSG, MESSAGE_MAX_BYTES, 2, plain, len);
  refuse(t, ERR_ProtocolError);
  for (uint8_t c = 1; c <= 3; c++) { // no compressed data at all
    compressed(t, OP_MSG, (uint32_t)len, c, plain, len);
    refuse(t, ERR_ProtocolError);
  }
}

// --- replies ---

static void test_replies(void **state) {
  struct test *t = *state;
  bson_t *reply = arena_bson(t->a), *extra = BCON_NEW("ns", "a.b", "code", BCON_INT32(7));
  struct error read;
  BSON_APPEND_INT32(reply, "n", 1);
  reply_ok(reply);
  assert_true(reply_check(reply, t->a, &read));
  (void)error_set(&t->err, ERR_StaleConfig, "old");
  (void)error_extra(&t->err, t->a, extra);
  reply_error(reply, &t->err);
  assert_false(doc_has(reply, "n"));
  assert_int_equal(doc_i64(reply, "code", 0), ERR_StaleConfig); // extra cannot replace it
  assert_string_equal(doc_str(reply, "codeName", ""), "StaleConfig");
  assert_false(reply_check(reply, t->a, &read));
  assert_int_equal(read.code, ERR_StaleConfig);
  assert_string_equal(read.message, "old");
  assert_string_equal(doc_str(read.extra, "ns", ""), "a.b");
  bson_reinit(reply);
  assert_false(reply_check(reply, t->a, &read)); // neither ok nor errmsg
  assert_int_equal(read.code, ERR_UnknownError);
  bson_destroy(extra);

  bson_t *outer = arena_bson(t->a);
  bson_t list, first;
  BSON_APPEND_ARRAY_BEGIN(outer, "writeErrors", &list);
  reply_append_write_error(&list, 0, 42, &t->err);
  bson_append_array_end(outer, &list);
  bson_iter_t it;
  assert_true(doc_get(outer, "writeErrors", &it));
  assert_true(bson_iter_recurse(&it, &it) && bson_iter_next(&it));
  iter_doc(&first, &it);
  assert_int_equal(doc_i64(&first, "index", 0), 42);
  assert_string_equal(doc_str(&first, "errmsg", ""), "old");
  assert_string_equal(doc_str(&first, "ns", ""), "a.b");
}

int main(void) {
#define WITH_MESSAGE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
  const struct CMUnitTest tests[] = {
      WITH_MESSAGE(test_round_trip),
      WITH_MESSAGE(test_joined),
      WITH_MESSAGE(test_op_reply),
      WITH_MESSAGE(test_op_query),
      WITH_MESSAGE(test_truncated_everywhere),
      WITH_MESSAGE(test_bad_headers),
      WITH_MESSAGE(test_bad_sections),
      WITH_MESSAGE(test_bad_documents),
      WITH_MESSAGE(test_checksum),
      WITH_MESSAGE(test_compression),
      WITH_MESSAGE(test_not_compressed),
      WITH_MESSAGE(test_bad_compression),
      WITH_MESSAGE(test_replies),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
