// $dateAdd, $dateSubtract, $dateDiff, $dateTrunc.
#include <string.h>

#include "common/query/dates.h"
#include "common/query/expression_dates.h"
#include "common/query/expression_families.h"
#include "common/query/type_names.h"

enum unit { UNIT_YEAR, UNIT_QUARTER, UNIT_MONTH, UNIT_WEEK, UNIT_DAY, UNIT_HOUR, UNIT_MINUTE, UNIT_SECOND, UNIT_MS };

// Months count calendar months; the other units are so many milliseconds.
static const struct unit_line {
  const char *name;
  int months;
  int64_t ms;
} UNITS[] = {
    {"year", 12, 0},
    {"quarter", 3, 0},
    {"month", 1, 0},
    {"week", 0, 7LL * MS_PER_DAY},
    {"day", 0, MS_PER_DAY},
    {"hour", 0, MS_PER_HOUR},
    {"minute", 0, MS_PER_MINUTE},
    {"second", 0, MS_PER_SECOND},
    {"millisecond", 0, 1},
};

static bool unit_of(const struct expr_call *c, size_t arg, enum unit *out) {
  const bson_value_t *v = &c->args[arg];
  if (!value_is_string(v)) {
    return error_set(c->v->err, 5439013, "%s requires 'unit' to be a string, but got %s", c->e->op->name,
                     type_name(v->value_type));
  }
  for (size_t i = 0; i < sizeof UNITS / sizeof *UNITS; i++) {
    if (!value_equals_text(v, UNITS[i].name)) continue;
    *out = (enum unit)i;
    return true;
  }
  return error_set(c->v->err, ERR_FailedToParse, "%s parameter 'unit' value cannot be recognized as a time unit: %s",
                   c->e->op->name, v->value.v_utf8.str);
}

static const char *const WEEKDAYS[] = {"sunday", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday"};

// The weekday that weeks begin on: Sunday unless given, in full or by its first three letters.
static bool week_start(const struct expr_call *c, size_t arg, int *out) {
  const bson_value_t *v = &c->args[arg];
  *out = 0;
  if (!c->e->args[arg]) return true;
  for (int i = 0; value_is_string(v) && i < 7; i++) {
    const char *s = v->value.v_utf8.str;
    if (strcasecmp(s, WEEKDAYS[i]) == 0 || (strlen(s) == 3 && strncasecmp(s, WEEKDAYS[i], 3) == 0)) {
      *out = i;
      return true;
    }
  }
  return error_set(c->v->err, ERR_FailedToParse,
                   "%s parameter 'startOfWeek' value cannot be recognized as a day of a week: %s", c->e->op->name,
                   value_text(c->v->scratch, v));
}

// Any argument that is given (or required) and nullish makes null.
static bool any_null(const struct expr_call *c, bson_value_t *out) {
  *out = value_null();
  for (size_t i = 0; i < c->n; i++) {
    if (c->e->args[i] && value_is_nullish(&c->args[i])) return true;
  }
  return false;
}

// --- $dateAdd, $dateSubtract: startDate, unit, amount, timezone ---

static bool add_months(int64_t ms, int64_t months, int64_t *out) {
  struct date_parts p;
  int64_t total;
  date_split(ms, &p);
  if (__builtin_add_overflow(p.year * 12 + p.month - 1, months, &total)) return false;
  p.year = date_floor_div(total, 12);
  if (p.year > 200000000 || p.year < -200000000) return false;
  p.month = (int)(total - p.year * 12 + 1);
  int last = date_month_length(p.year, p.month);
  if (p.day > last) p.day = last; // January 31 and a month is February's last day
  *out = date_join(&p);
  return true;
}

static bool date_add(const struct expr_call *c, int sign, bson_value_t *out) {
  enum unit unit;
  int64_t ms, amount, offset, result;
  if (any_null(c, out)) return true;
  if (!unit_of(c, 1, &unit) || !expr_date_of(c->v, &c->args[0], &ms)) return false;
  if (!value_is_number(&c->args[2]) || !value_is_integral(&c->args[2], &amount)) {
    return error_set(c->v->err, 5166405, "%s expects integer amount of time units", c->e->op->name);
  }
  if (!expr_zone_of(c->v, &c->args[3], &offset)) return false;
  bool ok = !__builtin_mul_overflow(amount, (int64_t)sign, &amount);
  if (UNITS[unit].months) {
    ok = ok && !__builtin_mul_overflow(amount, (int64_t)UNITS[unit].months, &amount) &&
         add_months(date_shift(ms, offset), amount, &result);
    if (ok) result = date_shift(result, -offset);
  } else {
    ok = ok && !__builtin_mul_overflow(amount, UNITS[unit].ms, &amount) && !__builtin_add_overflow(ms, amount, &result);
  }
  if (!ok) return error_set(c->v->err, 5166406, "%s overflowed", c->e->op->name);
  *out = value_date(result);
  return true;
}

static bool call_date_add(const struct expr_call *c, bson_value_t *out) {
  return date_add(c, 1, out);
}

static bool call_date_subtract(const struct expr_call *c, bson_value_t *out) {
  return date_add(c, -1, out);
}

// --- $dateDiff: startDate, endDate, unit, timezone, startOfWeek; counts the unit's borders that are passed ---

// The number of the unit that a local time is in, counted from any fixed one.
static int64_t unit_number(int64_t ms, enum unit unit, int first_weekday) {
  if (UNITS[unit].months) {
    struct date_parts p;
    date_split(ms, &p);
    return date_floor_div(p.year * 12 + p.month - 1, UNITS[unit].months);
  }
  if (unit == UNIT_WEEK) {
    // 1970-01-01 was a Thursday (4): shifted so that weeks begin where they should.
    int64_t days = date_floor_div(ms, MS_PER_DAY) + (4 - first_weekday + 7) % 7;
    return date_floor_div(days, 7);
  }
  return date_floor_div(ms, UNITS[unit].ms);
}

static bool call_date_diff(const struct expr_call *c, bson_value_t *out) {
  enum unit unit;
  int64_t from, to, offset;
  int first_weekday;
  if (any_null(c, out)) return true;
  if (!unit_of(c, 2, &unit) || !expr_date_of(c->v, &c->args[0], &from) || !expr_date_of(c->v, &c->args[1], &to) ||
      !expr_zone_of(c->v, &c->args[3], &offset) || !week_start(c, 4, &first_weekday)) {
    return false;
  }
  int64_t last = unit_number(date_shift(to, offset), unit, first_weekday), difference;
  int64_t first = unit_number(date_shift(from, offset), unit, first_weekday);
  if (__builtin_sub_overflow(last, first, &difference)) return error_set(c->v->err, 5166308, "$dateDiff overflowed");
  *out = value_int64(difference);
  return true;
}

// --- $dateTrunc: date, unit, binSize, timezone, startOfWeek; bins are counted from 2000-01-01 ---

static bool trunc_months(int64_t ms, int64_t bin_months, int64_t *out) {
  struct date_parts p;
  date_split(ms, &p);
  int64_t since = (p.year - 2000) * 12 + p.month - 1, start = date_floor_div(since, bin_months) * bin_months;
  int64_t year = date_floor_div(start, 12);
  if (year < -200000000 || year > 200000000) return false;
  *out = date_days(2000 + year, (int)(start - year * 12 + 1), 1) * MS_PER_DAY;
  return true;
}

static bool call_date_trunc(const struct expr_call *c, bson_value_t *out) {
  enum unit unit;
  int64_t ms, size = 1, offset, result, bin;
  int first_weekday;
  if (any_null(c, out)) return true;
  if (!unit_of(c, 1, &unit) || !expr_date_of(c->v, &c->args[0], &ms)) return false;
  if (c->e->args[2] && (!value_is_number(&c->args[2]) || !value_is_integral(&c->args[2], &size))) {
    return error_set(c->v->err, 5439017,
                     "$dateTrunc requires 'binSize' to be a 64-bit integer, but got value '%s' of type %s",
                     value_text(c->v->scratch, &c->args[2]), type_name(c->args[2].value_type));
  }
  if (size <= 0) {
    return error_set(c->v->err, 5439018, "$dateTrunc requires 'binSize' to be greater than 0, but got value %lld",
                     (long long)size);
  }
  if (!expr_zone_of(c->v, &c->args[3], &offset) || !week_start(c, 4, &first_weekday)) return false;
  int64_t unit_size = UNITS[unit].months ? UNITS[unit].months : UNITS[unit].ms;
  bool ok = !__builtin_mul_overflow(size, unit_size, &bin);
  if (ok && UNITS[unit].months) {
    ok = trunc_months(date_shift(ms, offset), bin, &result);
  } else if (ok) {
    int64_t reference = date_days(2000, 1, 1);
    if (unit == UNIT_WEEK) reference += (first_weekday - 6 + 7) % 7; // 2000-01-01 was a Saturday
    reference *= MS_PER_DAY;
    int64_t since = date_shift(date_shift(ms, offset), -reference), into = since % bin;
    // Down to the bin's start.
    result = date_shift(date_shift(since, into < 0 ? -bin - into : -into), reference);
  }
  if (!ok) return error_set(c->v->err, 5439005, "$dateTrunc overflowed");
  *out = value_date(date_shift(result, -offset));
  return true;
}

const struct expr_operator EXPR_DATE_MATH[] = {
    {"$dateAdd", "startDate* unit* amount* timezone", 0, 0, .call = call_date_add},
    {"$dateSubtract", "startDate* unit* amount* timezone", 0, 0, .call = call_date_subtract},
    {"$dateDiff", "startDate* endDate* unit* timezone startOfWeek", 0, 0, .call = call_date_diff},
    {"$dateTrunc", "date* unit* binSize timezone startOfWeek", 0, 0, .call = call_date_trunc},
    {NULL},
};
