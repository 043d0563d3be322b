// $type, $isNumber, $convert and its short forms ($toInt, $toString...).
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/query/dates.h"
#include "common/query/decimal.h"
#include "common/query/expression_families.h"
#include "common/query/type_names.h"

static const char *const WITHOUT_ON_ERROR = "in $convert with no onError value";

// --- to numbers ---

static bool would_overflow(struct evaluation *v, const bson_value_t *from) {
  return error_set(v->err, ERR_ConversionFailure, "Conversion would overflow target type %s: %s", WITHOUT_ON_ERROR,
                   value_text(v->scratch, from));
}

static bool bad_number(struct evaluation *v, const char *text, const char *why) {
  return error_set(v->err, ERR_ConversionFailure, "Failed to parse number '%s' %s: %s", text, WITHOUT_ON_ERROR, why);
}

static bool parse_integer(struct evaluation *v, const char *text, int64_t *out) {
  const char *digits = text + (*text == '-' || *text == '+');
  if (!*digits) return bad_number(v, text, *text ? "Did not parse any digits" : "No digits");
  for (const char *c = digits; *c; c++) {
    if (*c < '0' || *c > '9') return bad_number(v, text, "Did not consume whole string.");
  }
  char *end;
  errno = 0;
  *out = strtoll(text, &end, 10);
  return errno != ERANGE || bad_number(v, text, "Overflow");
}

// Any value that has an integral value: numbers are cut off. min, max: of the target type.
static bool to_integer(struct evaluation *v, const bson_value_t *from, int64_t min, int64_t max, int64_t *out) {
  bool fits = true;
  switch (from->value_type) {
  case BSON_TYPE_BOOL: *out = from->value.v_bool; break;
  case BSON_TYPE_DOUBLE:
    // The range as doubles: [-2^63, 2^63).
    fits = from->value.v_double >= -9223372036854775808.0 && from->value.v_double < 9223372036854775808.0;
    if (isnan(from->value.v_double) || isinf(from->value.v_double)) {
      return error_set(v->err, ERR_ConversionFailure, "Attempt to convert %s value to integer type %s",
                       isnan(from->value.v_double) ? "NaN" : "infinity", WITHOUT_ON_ERROR);
    }
    *out = fits ? (int64_t)from->value.v_double : 0;
    break;
  case BSON_TYPE_DECIMAL128: fits = decimal_to_i64(from->value.v_decimal128, out); break;
  case BSON_TYPE_UTF8:
    if (!parse_integer(v, from->value.v_utf8.str, out)) return false;
    if (*out < min || *out > max) return bad_number(v, from->value.v_utf8.str, "Overflow");
    break;
  default: *out = value_i64(from);
  }
  return (fits && *out >= min && *out <= max) || would_overflow(v, from);
}

static bool to_int(struct evaluation *v, const bson_value_t *from, bson_value_t *out) {
  int64_t n;
  if (!to_integer(v, from, INT32_MIN, INT32_MAX, &n)) return false;
  *out = value_int32((int32_t)n);
  return true;
}

static bool to_long(struct evaluation *v, const bson_value_t *from, bson_value_t *out) {
  int64_t n = from->value_type == BSON_TYPE_DATE_TIME ? from->value.v_datetime : 0;
  if (from->value_type != BSON_TYPE_DATE_TIME && !to_integer(v, from, INT64_MIN, INT64_MAX, &n)) return false;
  *out = value_int64(n);
  return true;
}

static bool to_double(struct evaluation *v, const bson_value_t *from, bson_value_t *out) {
  double d;
  char *end;
  switch (from->value_type) {
  case BSON_TYPE_BOOL: d = from->value.v_bool; break;
  case BSON_TYPE_DATE_TIME: d = (double)from->value.v_datetime; break;
  case BSON_TYPE_DECIMAL128:
    d = decimal_to_double(from->value.v_decimal128);
    if (isinf(d) && !decimal_is_infinite(from->value.v_decimal128)) return would_overflow(v, from);
    break;
  case BSON_TYPE_UTF8:
    d = strtod(from->value.v_utf8.str, &end);
    if (!from->value.v_utf8.len) return bad_number(v, "", "Empty string");
    if (*end || end == from->value.v_utf8.str || from->value.v_utf8.str[0] == ' ') {
      return bad_number(v, from->value.v_utf8.str, "Did not consume whole string.");
    }
    break;
  default: d = value_double(from);
  }
  *out = value_real(d);
  return true;
}

static bool to_decimal(struct evaluation *v, const bson_value_t *from, bson_value_t *out) {
  bson_decimal128_t d;
  switch (from->value_type) {
  case BSON_TYPE_BOOL: d = decimal_from_i64(from->value.v_bool); break;
  case BSON_TYPE_DATE_TIME: d = decimal_from_i64(from->value.v_datetime); break;
  case BSON_TYPE_UTF8:
    if (!bson_decimal128_from_string(from->value.v_utf8.str, &d)) {
      return bad_number(v, from->value.v_utf8.str, "Failed to parse string to decimal");
    }
    break;
  default: d = decimal_of(from);
  }
  *out = value_decimal(d);
  return true;
}

// --- to other types ---

static bool to_bool(struct evaluation *v, const bson_value_t *from, bson_value_t *out) {
  *out = value_bool(expr_truthy(from));
  return true;
}

// The shortest text that reads back as the same double.
static const char *double_text(struct arena *a, double d) {
  char text[40];
  if (isnan(d)) return "NaN";
  if (isinf(d)) return d < 0 ? "-Infinity" : "Infinity";
  for (int digits = 15; digits <= 17; digits++) {
    (void)snprintf(text, sizeof text, "%.*g", digits, d);
    if (strtod(text, NULL) == d) break;
  }
  return arena_strdup(a, text);
}

static bool to_string(struct evaluation *v, const bson_value_t *from, bson_value_t *out) {
  char text[BSON_DECIMAL128_STRING];
  switch (from->value_type) {
  case BSON_TYPE_UTF8: *out = *from; return true;
  case BSON_TYPE_BOOL: *out = value_str(from->value.v_bool ? "true" : "false"); return true;
  case BSON_TYPE_DOUBLE: *out = value_str(double_text(v->scratch, from->value.v_double)); return true;
  case BSON_TYPE_DECIMAL128: bson_decimal128_to_string(&from->value.v_decimal128, text); break;
  case BSON_TYPE_OID: bson_oid_to_string(&from->value.v_oid, text); break;
  case BSON_TYPE_DATE_TIME: *out = value_str(expr_date_text(v->scratch, from->value.v_datetime)); return true;
  default: (void)snprintf(text, sizeof text, "%lld", (long long)value_i64(from));
  }
  *out = value_str(arena_strdup(v->scratch, text));
  return true;
}

static bool to_oid(struct evaluation *v, const bson_value_t *from, bson_value_t *out) {
  const char *text = from->value.v_utf8.str;
  if (from->value_type == BSON_TYPE_OID) {
    *out = *from;
    return true;
  }
  if (from->value.v_utf8.len != 24) {
    return error_set(
        v->err, ERR_ConversionFailure,
        "Failed to parse objectId '%s' %s: Invalid string length for parsing to OID, expected 24 but found %u", text,
        WITHOUT_ON_ERROR, from->value.v_utf8.len);
  }
  if (!bson_oid_is_valid(text, 24)) {
    return error_set(v->err, ERR_ConversionFailure,
                     "Failed to parse objectId '%s' %s: Invalid character found in hex string", text, WITHOUT_ON_ERROR);
  }
  *out = (bson_value_t){.value_type = BSON_TYPE_OID};
  bson_oid_init_from_string(&out->value.v_oid, text);
  return true;
}

static bool to_date(struct evaluation *v, const bson_value_t *from, bson_value_t *out) {
  int64_t ms = 0;
  switch (from->value_type) {
  case BSON_TYPE_DATE_TIME: ms = from->value.v_datetime; break;
  case BSON_TYPE_TIMESTAMP: ms = (int64_t)from->value.v_timestamp.timestamp * MS_PER_SECOND; break;
  case BSON_TYPE_OID: ms = (int64_t)bson_oid_get_time_t(&from->value.v_oid) * MS_PER_SECOND; break;
  case BSON_TYPE_UTF8:
    if (!date_parse(from->value.v_utf8.str, &ms)) {
      return error_set(v->err, ERR_ConversionFailure, "Error parsing date string '%s' %s: not a date in ISO 8601 form",
                       from->value.v_utf8.str, WITHOUT_ON_ERROR);
    }
    break;
  default:
    if (!to_integer(v, from, INT64_MIN, INT64_MAX, &ms)) return false;
  }
  *out = value_date(ms);
  return true;
}

// --- which conversions there are ---

struct conversion {
  bson_type_t to;
  bool (*convert)(struct evaluation *v, const bson_value_t *from, bson_value_t *out);
  bson_type_t from[10]; // ends with BSON_TYPE_EOD; empty: from every type
};

static const struct conversion CONVERSIONS[] = {
    {BSON_TYPE_INT32,
     to_int,
     {BSON_TYPE_INT32, BSON_TYPE_INT64, BSON_TYPE_DOUBLE, BSON_TYPE_DECIMAL128, BSON_TYPE_BOOL, BSON_TYPE_UTF8}},
    {BSON_TYPE_INT64,
     to_long,
     {BSON_TYPE_INT32, BSON_TYPE_INT64, BSON_TYPE_DOUBLE, BSON_TYPE_DECIMAL128, BSON_TYPE_BOOL, BSON_TYPE_UTF8,
      BSON_TYPE_DATE_TIME}},
    {BSON_TYPE_DOUBLE,
     to_double,
     {BSON_TYPE_INT32, BSON_TYPE_INT64, BSON_TYPE_DOUBLE, BSON_TYPE_DECIMAL128, BSON_TYPE_BOOL, BSON_TYPE_UTF8,
      BSON_TYPE_DATE_TIME}},
    {BSON_TYPE_DECIMAL128,
     to_decimal,
     {BSON_TYPE_INT32, BSON_TYPE_INT64, BSON_TYPE_DOUBLE, BSON_TYPE_DECIMAL128, BSON_TYPE_BOOL, BSON_TYPE_UTF8,
      BSON_TYPE_DATE_TIME}},
    {BSON_TYPE_BOOL, to_bool, {BSON_TYPE_EOD}},
    {BSON_TYPE_UTF8,
     to_string,
     {BSON_TYPE_INT32, BSON_TYPE_INT64, BSON_TYPE_DOUBLE, BSON_TYPE_DECIMAL128, BSON_TYPE_BOOL, BSON_TYPE_UTF8,
      BSON_TYPE_DATE_TIME, BSON_TYPE_OID}},
    {BSON_TYPE_OID, to_oid, {BSON_TYPE_OID, BSON_TYPE_UTF8}},
    {BSON_TYPE_DATE_TIME,
     to_date,
     {BSON_TYPE_INT64, BSON_TYPE_DOUBLE, BSON_TYPE_DECIMAL128, BSON_TYPE_UTF8, BSON_TYPE_DATE_TIME, BSON_TYPE_TIMESTAMP,
      BSON_TYPE_OID}},
};

static bool converts_from(const struct conversion *c, bson_type_t type) {
  if (c->from[0] == BSON_TYPE_EOD) return true;
  for (size_t i = 0; c->from[i] != BSON_TYPE_EOD; i++) {
    if (c->from[i] == type) return true;
  }
  return false;
}

static bool convert(struct evaluation *v, const bson_value_t *from, bson_type_t to, bson_value_t *out) {
  for (size_t i = 0; i < sizeof CONVERSIONS / sizeof *CONVERSIONS; i++) {
    const struct conversion *c = &CONVERSIONS[i];
    if (c->to == to && converts_from(c, from->value_type)) return c->convert(v, from, out);
  }
  return error_set(v->err, ERR_ConversionFailure, "Unsupported conversion from %s to %s %s",
                   type_name(from->value_type), type_name(to), WITHOUT_ON_ERROR);
}

static bool short_form(const struct expr_call *c, bson_type_t to, bson_value_t *out) {
  *out = value_null();
  return value_is_nullish(&c->args[0]) || convert(c->v, &c->args[0], to, out);
}

static bool call_to_int(const struct expr_call *c, bson_value_t *out) {
  return short_form(c, BSON_TYPE_INT32, out);
}
static bool call_to_long(const struct expr_call *c, bson_value_t *out) {
  return short_form(c, BSON_TYPE_INT64, out);
}
static bool call_to_double(const struct expr_call *c, bson_value_t *out) {
  return short_form(c, BSON_TYPE_DOUBLE, out);
}
static bool call_to_decimal(const struct expr_call *c, bson_value_t *out) {
  return short_form(c, BSON_TYPE_DECIMAL128, out);
}
static bool call_to_bool(const struct expr_call *c, bson_value_t *out) {
  return short_form(c, BSON_TYPE_BOOL, out);
}
static bool call_to_string(const struct expr_call *c, bson_value_t *out) {
  return short_form(c, BSON_TYPE_UTF8, out);
}
static bool call_to_oid(const struct expr_call *c, bson_value_t *out) {
  return short_form(c, BSON_TYPE_OID, out);
}
static bool call_to_date(const struct expr_call *c, bson_value_t *out) {
  return short_form(c, BSON_TYPE_DATE_TIME, out);
}

static bool target_type(struct evaluation *v, const bson_value_t *to, bson_type_t *out) {
  int64_t number;
  bool known = value_is_string(to)
                   ? type_from_name(to->value.v_utf8.str, out)
                   : value_is_number(to) && value_is_integral(to, &number) && type_from_number(number, out);
  if (known) return true;
  if (!value_is_string(to) && !value_is_number(to)) {
    return error_set(v->err, ERR_FailedToParse, "$convert's 'to' argument must be a string or number, but is %s",
                     type_name(to->value_type));
  }
  return error_set(v->err, ERR_BadValue, "Unknown type name: %s", value_text(v->scratch, to));
}

// Arguments: input, to, onError, onNull. onError is for failing conversions, not for failing arguments.
static bool eval_convert(const struct expression *e, struct evaluation *v, bson_value_t *out) {
  bson_value_t input, to;
  bson_type_t type;
  if (!expr_argument(e, 0, v, &input) || !expr_argument(e, 1, v, &to)) return false;
  *out = value_null();
  if (value_is_nullish(&input)) return !e->args[3] || expr_argument(e, 3, v, out);
  if (value_is_nullish(&to)) return true;
  if (!target_type(v, &to, &type)) return false;
  struct evaluation quiet = *v;
  if (e->args[2]) quiet.err = NULL;
  if (convert(&quiet, &input, type, out)) return true;
  return e->args[2] && expr_argument(e, 2, v, out);
}

static bool call_type(const struct expr_call *c, bson_value_t *out) {
  *out = value_str(type_name(c->args[0].value_type));
  return true;
}

static bool call_is_number(const struct expr_call *c, bson_value_t *out) {
  *out = value_bool(value_is_number(&c->args[0]));
  return true;
}

const struct expr_operator EXPR_TYPE[] = {
    {"$type", NULL, 1, 1, .call = call_type},
    {"$isNumber", NULL, 1, 1, .call = call_is_number},
    {"$toInt", NULL, 1, 1, .call = call_to_int},
    {"$toLong", NULL, 1, 1, .call = call_to_long},
    {"$toDouble", NULL, 1, 1, .call = call_to_double},
    {"$toDecimal", NULL, 1, 1, .call = call_to_decimal},
    {"$toBool", NULL, 1, 1, .call = call_to_bool},
    {"$toString", NULL, 1, 1, .call = call_to_string},
    {"$toObjectId", NULL, 1, 1, .call = call_to_oid},
    {"$toDate", NULL, 1, 1, .call = call_to_date},
    {"$convert", "input* to* onError onNull", 0, 0, .eval = eval_convert},
    {NULL},
};
