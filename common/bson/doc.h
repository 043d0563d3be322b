// Small readers on top of libbson: fetch a field, read any number, copy a value into an arena.
//
// A `bson_value_t` in this project is borrowed: it points into a document or an arena and is copied by assignment.
// bson_value_destroy() is never called on one.
#ifndef SHARDLET_BSON_DOC_H
#define SHARDLET_BSON_DOC_H

#include <bson/bson.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/base/arena.h"
#include "common/base/buf.h"
#include "common/base/error.h"

// Whether `data` is a well-formed document with valid UTF-8, unique structure and a nesting depth of at most
// DOC_MAX_DEPTH; err: InvalidBSON, Overflow (depth). Everything that comes from outside passes here once.
enum { DOC_MAX_DEPTH = 180, DOC_MAX_BYTES = 16 * 1024 * 1024 };
bool doc_validate(const uint8_t *data, size_t len, struct error *err);

// Makes *view a read-only view over bytes known to be a document. The view must not be destroyed, and, like every
// bson_t, NEVER COPIED BY ASSIGNMENT or returned by value: libbson keeps pointers into the struct itself. Structs that
// hold a bson_t are filled in place; what has to travel by value is a bson_value_t or (data, len).
void doc_view(bson_t *view, const uint8_t *data, size_t len);

// The first field of this name (not a dotted path). false: not there.
bool doc_get(const bson_t *doc, const char *name, bson_iter_t *it);
bool doc_get_n(const bson_t *doc, const char *name, size_t n, bson_iter_t *it); // the first n bytes of `name`
bool doc_value(const bson_t *doc, const char *name, bson_value_t *out);
bool doc_has(const bson_t *doc, const char *name);

// Typed reads. Numbers are accepted from int32, int64, double and Decimal128 (truncated). Missing or another type:
// `otherwise`. Truth: false for false, 0, null, undefined and missing.
int64_t doc_i64(const bson_t *doc, const char *name, int64_t otherwise);
double doc_double(const bson_t *doc, const char *name, double otherwise);
bool doc_bool(const bson_t *doc, const char *name, bool otherwise);
const char *doc_str(const bson_t *doc, const char *name, const char *otherwise); // points into doc
bool doc_doc(const bson_t *doc, const char *name, bson_t *view);                 // document or array
bool doc_oid(const bson_t *doc, const char *name, bson_oid_t *oid);
bool doc_uuid(const bson_t *doc, const char *name, uint8_t uuid[16]);  // BinData subtype 4 of 16 bytes
bool doc_timestamp(const bson_t *doc, const char *name, uint64_t *ts); // t in the upper 32 bits

bool iter_is_number(const bson_iter_t *it);
int64_t iter_i64(const bson_iter_t *it);
void iter_doc(bson_t *view, const bson_iter_t *it); // view of an embedded document or array; else an empty one
bool value_is_number(const bson_value_t *v);
bool value_truthy(const bson_value_t *v);
int64_t value_i64(const bson_value_t *v); // truncates; clamps doubles out of range
double value_double(const bson_value_t *v);
bool value_is_integral(const bson_value_t *v, int64_t *out); // a number without a fraction that fits an int64

// Makers of borrowed values.
bson_value_t value_null(void);
bson_value_t value_bool(bool b);
bson_value_t value_int32(int32_t n);
bson_value_t value_int64(int64_t n);
bson_value_t value_number(int64_t n); // int32 when it fits, else int64: MongoDB's "append number"
bson_value_t value_real(double d);
bson_value_t value_str(const char *s);     // borrows s
bson_value_t value_doc(const bson_t *doc); // borrows doc's bytes
bson_value_t value_array(const bson_t *doc);

// Copies a document (a view, mostly) into the arena; read-only.
const bson_t *doc_copy(struct arena *a, const bson_t *doc) __attribute__((returns_nonnull));
// Copies what v points to into the arena.
bson_value_t value_copy(struct arena *a, const bson_value_t *v);

// Writers: BSON has an int32 and an int64; MongoDB uses both (reference/sharding.md section 0).
void doc_append_num(bson_t *doc, const char *name, int64_t n); // int32 when it fits
void doc_append_uuid(bson_t *doc, const char *name, const uint8_t uuid[16]);
void doc_append_ts(bson_t *doc, const char *name, uint64_t ts);
// Of values that somebody else made: the keys of an array are kept as they are (libbson's own functions complain on
// stderr when they are not "0", "1" and so on).
void doc_append_value(bson_t *doc, const char *name, const bson_value_t *v);
void doc_append_array(bson_t *doc, const char *name, const bson_t *array);
void doc_append_iter(bson_t *doc, const char *name, const bson_iter_t *it); // name NULL: the element's own

// Byte-for-byte equality of two documents.
bool doc_equal_bytes(const bson_t *a, const bson_t *b);

// Text for messages and logs, as MongoDB's shell-like form `{ a: 1, b: MinKey }`.
const char *doc_text(struct arena *a, const bson_t *doc);
const char *value_text(struct arena *a, const bson_value_t *v);

#endif
