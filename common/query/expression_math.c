// $ceil, $floor, $round, $trunc, $sqrt, $pow, $exp, $ln, $log, $log10, $rand.
#include <math.h>

#include "common/base/clock.h"
#include "common/query/decimal.h"
#include "common/query/expression_families.h"
#include "common/query/number_sum.h"
#include "common/query/type_names.h"

static bool is_decimal(const bson_value_t *v) {
  return v->value_type == BSON_TYPE_DECIMAL128;
}

static bool is_integer(const bson_value_t *v) {
  return v->value_type == BSON_TYPE_INT32 || v->value_type == BSON_TYPE_INT64;
}

// The usual start: null for nullish, an error for what is no number. *done: *out is set already.
static bool numeric(const struct expr_call *c, bson_value_t *out, bool *done) {
  *done = true;
  *out = value_null();
  for (size_t i = 0; i < c->n; i++) {
    const bson_value_t *v = &c->args[i];
    if (value_is_nullish(v)) return true;
    if (!value_is_number(v)) {
      *done = false;
      return error_set(c->v->err, 28765, "%s only supports numeric types, not %s", c->e->op->name,
                       type_name(v->value_type));
    }
  }
  *done = false;
  return true;
}

// --- rounding ---

static bool to_whole(const struct expr_call *c, enum decimal_rounding how, double (*of_double)(double),
                     bson_value_t *out) {
  bool done;
  if (!numeric(c, out, &done) || done) return done;
  const bson_value_t *v = &c->args[0];
  if (is_decimal(v))
    *out = value_decimal(decimal_round(v->value.v_decimal128, 0, how));
  else
    *out = is_integer(v) ? *v : value_real(of_double(v->value.v_double));
  return true;
}

static bool call_ceil(const struct expr_call *c, bson_value_t *out) {
  return to_whole(c, DECIMAL_CEILING, ceil, out);
}

static bool call_floor(const struct expr_call *c, bson_value_t *out) {
  return to_whole(c, DECIMAL_FLOOR, floor, out);
}

// The number of places, second argument of $round and $trunc.
static bool places_of(const struct expr_call *c, int64_t *places) {
  *places = 0;
  if (c->n < 2) return true;
  const char *name = c->e->op->name;
  if (!value_is_integral(&c->args[1], places)) {
    return error_set(c->v->err, 51082, "precision argument to  %s must be a integral value", name);
  }
  if (*places < -20 || *places > 100) {
    return error_set(c->v->err, 51083, "cannot apply %s with precision value %lld value must be in [-20, 100]", name,
                     (long long)*places);
  }
  return true;
}

static bool round_integer(const struct expr_call *c, int places, enum decimal_rounding how, bson_value_t *out) {
  const bson_value_t *v = &c->args[0];
  int64_t n;
  *out = *v;
  if (places >= 0) return true;
  bson_decimal128_t rounded = decimal_round(decimal_of(v), places, how);
  if (!decimal_to_i64(rounded, &n)) {
    return error_set(c->v->err, 51080,
                     "invalid conversion from Decimal128 result in %s resulting from arguments: [%s, %d]",
                     c->e->op->name, value_text(c->v->scratch, v), places);
  }
  *out = v->value_type == BSON_TYPE_INT64 ? value_int64(n) : value_number(n);
  return true;
}

static bool round_or_trunc(const struct expr_call *c, enum decimal_rounding how, bson_value_t *out) {
  bool done;
  int64_t places;
  if (!numeric(c, out, &done) || done) return done;
  if (!places_of(c, &places)) return false;
  const bson_value_t *v = &c->args[0];
  if (is_decimal(v)) {
    *out = value_decimal(decimal_round(v->value.v_decimal128, (int)places, how));
  } else if (is_integer(v)) {
    return round_integer(c, (int)places, how, out);
  } else if (places == 0) {
    *out = value_real(how == DECIMAL_TRUNCATE ? trunc(v->value.v_double) : nearbyint(v->value.v_double));
  } else {
    bson_decimal128_t exact = decimal_from_double_exact(v->value.v_double);
    *out = value_real(decimal_to_double(decimal_round(exact, (int)places, how)));
  }
  return true;
}

static bool call_round(const struct expr_call *c, bson_value_t *out) {
  return round_or_trunc(c, DECIMAL_HALF_EVEN, out);
}

static bool call_trunc(const struct expr_call *c, bson_value_t *out) {
  return round_or_trunc(c, DECIMAL_TRUNCATE, out);
}

// --- roots, powers, logarithms ---

static bool call_sqrt(const struct expr_call *c, bson_value_t *out) {
  bool done;
  if (!numeric(c, out, &done) || done) return done;
  const bson_value_t *v = &c->args[0];
  if (value_double(v) < 0) {
    return error_set(c->v->err, 28714, "$sqrt's argument must be greater than or equal to 0");
  }
  *out = is_decimal(v) ? value_decimal(decimal_sqrt(v->value.v_decimal128)) : value_real(sqrt(value_double(v)));
  return true;
}

static bool call_exp(const struct expr_call *c, bson_value_t *out) {
  bool done;
  if (!numeric(c, out, &done) || done) return done;
  const bson_value_t *v = &c->args[0];
  *out = is_decimal(v) ? value_decimal(decimal_exp(v->value.v_decimal128)) : value_real(exp(value_double(v)));
  return true;
}

static bool is_positive(const bson_value_t *v) {
  if (is_decimal(v)) {
    bson_decimal128_t d = v->value.v_decimal128;
    return decimal_is_nan(d) || !(decimal_is_negative(d) || decimal_is_zero(d));
  }
  return isnan(value_double(v)) || value_double(v) > 0;
}

static bool call_ln(const struct expr_call *c, bson_value_t *out) {
  bool done;
  if (!numeric(c, out, &done) || done) return done;
  const bson_value_t *v = &c->args[0];
  if (!is_positive(v)) {
    return error_set(c->v->err, 28766, "$ln's argument must be a positive number, but is %s",
                     value_text(c->v->scratch, v));
  }
  *out = is_decimal(v) ? value_decimal(decimal_ln(v->value.v_decimal128)) : value_real(log(value_double(v)));
  return true;
}

static bool call_log10(const struct expr_call *c, bson_value_t *out) {
  bool done;
  if (!numeric(c, out, &done) || done) return done;
  const bson_value_t *v = &c->args[0];
  if (!is_positive(v)) {
    return error_set(c->v->err, 28761, "$log10's argument must be a positive number, but is %s",
                     value_text(c->v->scratch, v));
  }
  *out = is_decimal(v) ? value_decimal(decimal_log10(v->value.v_decimal128)) : value_real(log10(value_double(v)));
  return true;
}

static bool call_log(const struct expr_call *c, bson_value_t *out) {
  bool done;
  if (!numeric(c, out, &done) || done) return done;
  const bson_value_t *v = &c->args[0], *base = &c->args[1];
  if (!is_positive(v)) {
    return error_set(c->v->err, 28758, "$log's argument must be a positive number, but is %s",
                     value_text(c->v->scratch, v));
  }
  if (!is_positive(base) || value_double(base) == 1) {
    return error_set(c->v->err, 28759, "$log's base must be a positive number not equal to 1, but is %s",
                     value_text(c->v->scratch, base));
  }
  if (is_decimal(v) || is_decimal(base)) {
    *out = value_decimal(decimal_divide(decimal_ln(decimal_of(v)), decimal_ln(decimal_of(base))));
  } else {
    *out = value_real(log(value_double(v)) / log(value_double(base)));
  }
  return true;
}

// base^exponent in 64 bits; false: it does not fit.
static bool integer_power(int64_t base, int64_t exponent, int64_t *out) {
  *out = 1;
  if (base == 0 || base == 1) {
    *out = exponent == 0 ? 1 : base;
    return true;
  }
  if (base == -1) {
    *out = exponent % 2 ? -1 : 1;
    return true;
  }
  for (; exponent > 0; exponent--) { // |base| >= 2: at most 63 rounds
    if (__builtin_mul_overflow(*out, base, out)) return false;
  }
  return true;
}

static bool call_pow(const struct expr_call *c, bson_value_t *out) {
  bool done;
  if (!numeric(c, out, &done) || done) return done;
  const bson_value_t *base = &c->args[0], *exponent = &c->args[1];
  if (value_double(base) == 0 && value_double(exponent) < 0) {
    return error_set(c->v->err, 28764, "$pow cannot take a base of 0 and a negative exponent");
  }
  if (is_decimal(base) || is_decimal(exponent)) {
    *out = value_decimal(decimal_pow(decimal_of(base), decimal_of(exponent)));
    return true;
  }
  *out = value_real(pow(value_double(base), value_double(exponent)));
  if (!is_integer(base) || !is_integer(exponent)) return true;
  int64_t b = value_i64(base), e = value_i64(exponent), n;
  // Of negative powers only those of 1 and -1 are integers.
  if (e < 0 && b != 1 && b != -1) return true;
  if (!integer_power(b, e, &n)) return true;
  bool wide = base->value_type == BSON_TYPE_INT64 || exponent->value_type == BSON_TYPE_INT64;
  *out = wide ? value_int64(n) : value_number(n);
  return true;
}

static bool call_rand(const struct expr_call *c, bson_value_t *out) {
  *out = value_real((double)(random_u64() >> 11) * 0x1p-53);
  return true;
}

// {$rand: {}} has an empty document for no argument.
static bool parse_rand(struct expr_parser *p, struct expression *e, const bson_value_t *spec) {
  bson_iter_t it;
  if ((value_is_doc(spec) || value_is_array(spec)) && value_iter(spec, &it) && !bson_iter_next(&it)) return true;
  return error_set(p->err, 3040501, "$rand does not currently accept arguments");
}

const struct expr_operator EXPR_MATH[] = {
    {"$ceil", NULL, 1, 1, .call = call_ceil},
    {"$floor", NULL, 1, 1, .call = call_floor},
    {"$round", NULL, 1, 2, .call = call_round},
    {"$trunc", NULL, 1, 2, .call = call_trunc},
    {"$sqrt", NULL, 1, 1, .call = call_sqrt},
    {"$exp", NULL, 1, 1, .call = call_exp},
    {"$ln", NULL, 1, 1, .call = call_ln},
    {"$log10", NULL, 1, 1, .call = call_log10},
    {"$log", NULL, 2, 2, .call = call_log},
    {"$pow", NULL, 2, 2, .call = call_pow},
    {"$rand", NULL, 0, 0, .call = call_rand, .parse = parse_rand, .volatile_value = true},
    {NULL},
};
