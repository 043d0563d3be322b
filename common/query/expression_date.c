// Parts of dates ($year...) and their text ($dateToString).
#include <stdio.h>
#include <string.h>

#include "common/query/dates.h"
#include "common/query/expression_families.h"
#include "common/query/expression_dates.h"
#include "common/query/type_names.h"

bool expr_date_of(struct evaluation *v, const bson_value_t *from, int64_t *ms) {
  switch (from->value_type) {
  case BSON_TYPE_DATE_TIME: *ms = from->value.v_datetime; return true;
  case BSON_TYPE_TIMESTAMP: *ms = (int64_t)from->value.v_timestamp.timestamp * MS_PER_SECOND; return true;
  case BSON_TYPE_OID: *ms = (int64_t)bson_oid_get_time_t(&from->value.v_oid) * MS_PER_SECOND; return true;
  default: return error_set(v->err, 16006, "can't convert from BSON type %s to Date", type_name(from->value_type));
  }
}

bool expr_zone_of(struct evaluation *v, const bson_value_t *zone, int64_t *offset_ms) {
  *offset_ms = 0;
  if (value_is_missing(zone)) return true;
  if (!value_is_string(zone)) {
    return error_set(v->err, 40517, "timezone must evaluate to a string, found %s", type_name(zone->value_type));
  }
  return date_zone_offset(zone->value.v_utf8.str, offset_ms, v->err);
}

const char *expr_date_text(struct arena *a, int64_t ms) {
  struct date_parts p;
  date_split(ms, &p);
  return arena_printf(a, "%04lld-%02d-%02dT%02d:%02d:%02d.%03dZ", (long long)p.year, p.month, p.day, p.hour, p.minute,
                      p.second, p.millisecond);
}

// --- parts: {$year: date} or {$year: {date: .., timezone: ..}} ---

static bool parse_part(struct expr_parser *p, struct expression *e, const bson_value_t *spec) {
  bson_iter_t it;
  bool named = value_is_doc(spec) && value_iter(spec, &it) && bson_iter_next(&it) && bson_iter_key(&it)[0] != '$';
  if (named) return expr_parse_arguments(p, e, spec);
  const bson_value_t *arg = spec;
  bson_value_t element;
  if (value_is_array(spec)) {
    size_t n = 0;
    for (value_iter(spec, &it); bson_iter_next(&it); n++) element = *bson_iter_value(&it);
    if (n != 1) {
      return error_set(p->err, 40536, "%s accepts exactly one argument if given an array, but was given %zu",
                       e->op->name, n);
    }
    arg = &element;
  }
  e->n = 2;
  e->args = arena_zalloc(p->arena, e->n * sizeof(struct expression *));
  e->args[0] = expr_parse(p, arg);
  return e->args[0] != NULL;
}

// *none: the date or the zone is nullish, so that the result is null.
static bool parts_of(const struct expr_call *c, struct date_parts *out, bool *none, bson_value_t *result) {
  int64_t ms, offset;
  *result = value_null();
  *none = value_is_nullish(&c->args[0]) || (c->e->args[1] && value_is_nullish(&c->args[1]));
  if (*none) return true;
  if (!expr_date_of(c->v, &c->args[0], &ms) || !expr_zone_of(c->v, &c->args[1], &offset)) return false;
  date_split(date_shift(ms, offset), out);
  return true;
}

enum part {
  YEAR,
  MONTH,
  DAY,
  HOUR,
  MINUTE,
  SECOND,
  MILLISECOND,
  WEEKDAY,
  YEAR_DAY,
  WEEK,
  ISO_WEEK,
  ISO_YEAR,
  ISO_WEEKDAY
};

// The week of the year with weeks beginning on Sundays; days before the first Sunday are in week 0.
static int week_of(const struct date_parts *p) {
  return (p->year_day - 1 + 7 - p->weekday) / 7;
}

static int64_t part_value(const struct date_parts *p, enum part which) {
  int64_t iso_year;
  int iso_week;
  date_iso_week(p, &iso_year, &iso_week);
  switch (which) {
  case YEAR: return p->year;
  case MONTH: return p->month;
  case DAY: return p->day;
  case HOUR: return p->hour;
  case MINUTE: return p->minute;
  case SECOND: return p->second;
  case MILLISECOND: return p->millisecond;
  case WEEKDAY: return p->weekday + 1;
  case YEAR_DAY: return p->year_day;
  case WEEK: return week_of(p);
  case ISO_WEEK: return iso_week;
  case ISO_YEAR: return iso_year;
  default: return p->weekday ? p->weekday : 7;
  }
}

static bool part(const struct expr_call *c, enum part which, bson_value_t *out) {
  struct date_parts p;
  bool none;
  if (!parts_of(c, &p, &none, out)) return false;
  if (none) return true;
  *out = which == ISO_YEAR ? value_int64(part_value(&p, which)) : value_int32((int32_t)part_value(&p, which));
  return true;
}

static bool call_year(const struct expr_call *c, bson_value_t *out) {
  return part(c, YEAR, out);
}
static bool call_month(const struct expr_call *c, bson_value_t *out) {
  return part(c, MONTH, out);
}
static bool call_day(const struct expr_call *c, bson_value_t *out) {
  return part(c, DAY, out);
}
static bool call_hour(const struct expr_call *c, bson_value_t *out) {
  return part(c, HOUR, out);
}
static bool call_minute(const struct expr_call *c, bson_value_t *out) {
  return part(c, MINUTE, out);
}
static bool call_second(const struct expr_call *c, bson_value_t *out) {
  return part(c, SECOND, out);
}
static bool call_millisecond(const struct expr_call *c, bson_value_t *out) {
  return part(c, MILLISECOND, out);
}
static bool call_day_of_week(const struct expr_call *c, bson_value_t *out) {
  return part(c, WEEKDAY, out);
}
static bool call_day_of_year(const struct expr_call *c, bson_value_t *out) {
  return part(c, YEAR_DAY, out);
}
static bool call_week(const struct expr_call *c, bson_value_t *out) {
  return part(c, WEEK, out);
}
static bool call_iso_week(const struct expr_call *c, bson_value_t *out) {
  return part(c, ISO_WEEK, out);
}
static bool call_iso_week_year(const struct expr_call *c, bson_value_t *out) {
  return part(c, ISO_YEAR, out);
}
static bool call_iso_day_of_week(const struct expr_call *c, bson_value_t *out) {
  return part(c, ISO_WEEKDAY, out);
}

// --- $dateToString ---

static const char *const MONTHS[] = {"January", "February", "March",     "April",   "May",      "June",
                                     "July",    "August",   "September", "October", "November", "December"};

struct specifier {
  char letter;
  const char *format;
  enum part part;
};

static const struct specifier SPECIFIERS[] = {
    {'Y', "%04lld", YEAR},      {'m', "%02lld", MONTH},  {'d', "%02lld", DAY},         {'H', "%02lld", HOUR},
    {'M', "%02lld", MINUTE},    {'S', "%02lld", SECOND}, {'L', "%03lld", MILLISECOND}, {'j', "%03lld", YEAR_DAY},
    {'w', "%lld", WEEKDAY},     {'U', "%02lld", WEEK},   {'V', "%02lld", ISO_WEEK},    {'G', "%04lld", ISO_YEAR},
    {'u', "%lld", ISO_WEEKDAY},
};

static bool add_specifier(struct evaluation *v, struct buf *to, char letter, const struct date_parts *p,
                          int64_t offset) {
  for (size_t i = 0; i < sizeof SPECIFIERS / sizeof *SPECIFIERS; i++) {
    if (SPECIFIERS[i].letter != letter) continue;
    char text[32];
    // Formats are those of the table above, of one long long each.
    const char *format = SPECIFIERS[i].format;
    int width = format[1] == '0' ? format[2] - '0' : 0;
    (void)snprintf(text, sizeof text, "%0*lld", width, (long long)part_value(p, SPECIFIERS[i].part));
    buf_printf(to, "%s", text);
    return true;
  }
  int64_t minutes = offset / MS_PER_MINUTE, magnitude = minutes < 0 ? -minutes : minutes;
  switch (letter) {
  case '%': buf_add_byte(to, '%'); return true;
  case 'b': buf_add(to, MONTHS[p->month - 1], 3); return true;
  case 'B': buf_printf(to, "%s", MONTHS[p->month - 1]); return true;
  case 'z':
    buf_printf(to, "%c%02d%02d", minutes < 0 ? '-' : '+', (int)(magnitude / 60), (int)(magnitude % 60));
    return true;
  case 'Z': buf_printf(to, "%s%lld", minutes < 0 ? "-" : "+", (long long)magnitude); return true;
  default: return error_set(v->err, 18536, "Invalid format character '%%%c' in format string", letter);
  }
}

static bool format_date(struct evaluation *v, const char *format, int64_t ms, int64_t offset, bson_value_t *out) {
  struct date_parts p;
  __attribute__((cleanup(buf_cleanup))) struct buf text = {0};
  date_split(date_shift(ms, offset), &p);
  if (p.year < 0 || p.year > 9999) {
    return error_set(v->err, 18537,
                     "Could not convert date to string: date component was outside the supported range of "
                     "0-9999: %lld",
                     (long long)p.year);
  }
  for (const char *f = format; *f; f++) {
    if (*f != '%') {
      buf_add_byte(&text, (uint8_t)*f);
      continue;
    }
    f++;
    if (!*f) return error_set(v->err, 18535, "Unmatched '%%' at end of format string");
    if (!add_specifier(v, &text, *f, &p, offset)) return false;
  }
  *out = value_strn(arena_strndup(v->scratch, buf_str(&text), text.len), text.len);
  return true;
}

// Arguments: date, format, timezone, onNull.
static bool call_date_to_string(const struct expr_call *c, bson_value_t *out) {
  int64_t ms, offset;
  *out = c->e->args[3] ? c->args[3] : value_null();
  for (size_t i = 0; i < 3; i++) {
    // A format or a zone that is given and null makes null.
    if ((i == 0 || c->e->args[i]) && value_is_nullish(&c->args[i])) return true;
  }
  if (!expr_date_of(c->v, &c->args[0], &ms) || !expr_zone_of(c->v, &c->args[2], &offset)) return false;
  if (c->e->args[1] && !value_is_string(&c->args[1])) {
    return error_set(c->v->err, 18533, "$dateToString requires that 'format' be a string, found: %s with value %s",
                     type_name(c->args[1].value_type), value_text(c->v->scratch, &c->args[1]));
  }
  const char *format = !c->e->args[2] ? "%Y-%m-%dT%H:%M:%S.%LZ" : "%Y-%m-%dT%H:%M:%S.%L";
  if (c->e->args[1]) format = c->args[1].value.v_utf8.str;
  return format_date(c->v, format, ms, offset, out);
}

const struct expr_operator EXPR_DATE[] = {
    {"$year", "date* timezone", 0, 0, .call = call_year, .parse = parse_part},
    {"$month", "date* timezone", 0, 0, .call = call_month, .parse = parse_part},
    {"$dayOfMonth", "date* timezone", 0, 0, .call = call_day, .parse = parse_part},
    {"$hour", "date* timezone", 0, 0, .call = call_hour, .parse = parse_part},
    {"$minute", "date* timezone", 0, 0, .call = call_minute, .parse = parse_part},
    {"$second", "date* timezone", 0, 0, .call = call_second, .parse = parse_part},
    {"$millisecond", "date* timezone", 0, 0, .call = call_millisecond, .parse = parse_part},
    {"$dayOfWeek", "date* timezone", 0, 0, .call = call_day_of_week, .parse = parse_part},
    {"$dayOfYear", "date* timezone", 0, 0, .call = call_day_of_year, .parse = parse_part},
    {"$week", "date* timezone", 0, 0, .call = call_week, .parse = parse_part},
    {"$isoWeek", "date* timezone", 0, 0, .call = call_iso_week, .parse = parse_part},
    {"$isoWeekYear", "date* timezone", 0, 0, .call = call_iso_week_year, .parse = parse_part},
    {"$isoDayOfWeek", "date* timezone", 0, 0, .call = call_iso_day_of_week, .parse = parse_part},
    {"$dateToString", "date* format timezone onNull", 0, 0, .call = call_date_to_string},
    {NULL},
};
