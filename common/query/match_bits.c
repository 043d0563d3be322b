// $bitsAllSet, $bitsAllClear, $bitsAnySet, $bitsAnyClear.
#include "common/query/match_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/query/values.h"

static int compare_positions(const void *a, const void *b) {
  uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
  return x < y ? -1 : x > y;
}

static bool positions_of_array(struct match_parser *p, const bson_value_t *arg, struct bits_test *out) {
  bson_iter_t it;
  size_t entries = 0;
  for (value_iter(arg, &it); bson_iter_next(&it);) entries++;
  out->positions = arena_alloc(p->arena, entries * sizeof *out->positions);
  for (value_iter(arg, &it); bson_iter_next(&it);) {
    const bson_value_t *v = bson_iter_value(&it);
    int64_t n;
    if (!value_is_number(v) || !value_is_integral(v, &n)) {
      return error_set(p->err, ERR_BadValue, "bit positions must be an integer but got: %s", value_text(p->arena, v));
    }
    if (n < 0) {
      return error_set(p->err, ERR_BadValue, "bit positions must be >= 0 but got: %s", value_text(p->arena, v));
    }
    if (n > INT32_MAX) {
      return error_set(p->err, ERR_BadValue, "bit positions cannot be represented as a 32-bit signed integer: %s",
                       value_text(p->arena, v));
    }
    out->positions[out->n++] = (uint32_t)n;
  }
  return true;
}

static void positions_of_bytes(struct match_parser *p, const uint8_t *data, size_t len, struct bits_test *out) {
  out->positions = arena_alloc(p->arena, len * 8 * sizeof *out->positions);
  for (size_t i = 0; i < len * 8; i++) {
    if (data[i / 8] >> (i % 8) & 1) out->positions[out->n++] = (uint32_t)i;
  }
}

static bool positions_of_mask(struct match_parser *p, const struct match_operator *op, const bson_value_t *arg,
                              struct bits_test *out) {
  int64_t n;
  if (!value_is_integral(arg, &n)) {
    return error_set(p->err, ERR_BadValue, "Expected an integer: %s: %s", op->name, value_text(p->arena, arg));
  }
  if (n < 0) {
    return error_set(p->err, ERR_BadValue, "Expected a non-negative number in: %s: %s", op->name,
                     value_text(p->arena, arg));
  }
  uint8_t bytes[8];
  for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = (uint8_t)((uint64_t)n >> (8 * i));
  positions_of_bytes(p, bytes, sizeof bytes, out);
  return true;
}

bool match_parse_bits(const struct match_leaf *l) {
  struct match_parser *p = l->p;
  const struct match_operator *op = l->op;
  const bson_value_t *arg = l->arg;
  struct match_node *n = match_node_new(p, MATCH_BITS, op->name, l->path);
  n->value = *arg;
  n->test = match_test_bits;
  bool any = strncmp(op->name, "$bitsAny", 8) == 0, set = strcmp(op->name + 8, "Set") == 0;
  n->bits.mode = any ? (set ? BITS_ANY_SET : BITS_ANY_CLEAR) : (set ? BITS_ALL_SET : BITS_ALL_CLEAR);
  if (value_is_array(arg)) {
    if (!positions_of_array(p, arg, &n->bits)) return false;
  } else if (value_is_number(arg)) {
    if (!positions_of_mask(p, op, arg, &n->bits)) return false;
  } else if (arg->value_type == BSON_TYPE_BINARY) {
    positions_of_bytes(p, arg->value.v_binary.data, arg->value.v_binary.data_len, &n->bits);
  } else {
    return error_set(p->err, ERR_BadValue, "%s takes an Array, a number, or a BinData but received: %s", op->name,
                     value_text(p->arena, arg));
  }
  qsort(n->bits.positions, n->bits.n, sizeof *n->bits.positions, compare_positions);
  match_node_add(p, l->to, n);
  return true;
}

// Bit i of a number in two's complement (sign-extended without end) or of binary data (zero behind its end).
static bool bit_of_number(int64_t v, uint32_t i) {
  return i < 63 ? v >> i & 1 : v < 0;
}

static bool bit_of_bytes(const uint8_t *data, size_t len, uint32_t i) {
  return i / 8 < len && data[i / 8] >> (i % 8) & 1;
}

bool match_test_bits(const struct match_node *n, const bson_value_t *v) {
  int64_t number = 0;
  bool binary = v && v->value_type == BSON_TYPE_BINARY;
  // Only numbers that are integers of 64 bits have bits to look at.
  if (!v || (!binary && (!value_is_number(v) || !value_is_integral(v, &number)))) return false;
  bool want = n->bits.mode == BITS_ALL_SET || n->bits.mode == BITS_ANY_SET;
  bool all = n->bits.mode == BITS_ALL_SET || n->bits.mode == BITS_ALL_CLEAR;
  for (size_t i = 0; i < n->bits.n; i++) {
    uint32_t at = n->bits.positions[i];
    bool bit =
        binary ? bit_of_bytes(v->value.v_binary.data, v->value.v_binary.data_len, at) : bit_of_number(number, at);
    if ((bit == want) != all) return !all;
  }
  return all;
}
