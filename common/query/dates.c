// Calendar arithmetic on dates. The conversion between days and year, month, day counts years from March in eras of 400
// years (the well-known method described by Howard Hinnant in "chrono-Compatible Low-Level Date Algorithms").
#include "common/query/dates.h"

#include <stdio.h>
#include <string.h>

#include "common/base/error.h"

enum { DAYS_PER_ERA = 146097, DAYS_TO_1970 = 719468 }; // since 0000-03-01

int64_t date_floor_div(int64_t a, int64_t b) {
  int64_t q = a / b;
  return a % b < 0 ? q - 1 : q;
}

int64_t date_days(int64_t year, int month, int day) {
  int64_t months = year * 12 + (month - 1) - 2; // from March
  int64_t y = date_floor_div(months, 12), m = months - y * 12;
  int64_t era = date_floor_div(y, 400), year_of_era = y - era * 400;
  int64_t day_of_year = (153 * m + 2) / 5 + day - 1;
  int64_t day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
  return era * DAYS_PER_ERA + day_of_era - DAYS_TO_1970;
}

void date_split(int64_t ms, struct date_parts *out) {
  int64_t days = date_floor_div(ms, MS_PER_DAY), rest = ms % MS_PER_DAY;
  if (rest < 0) rest += MS_PER_DAY;
  int64_t since = days + DAYS_TO_1970, era = date_floor_div(since, DAYS_PER_ERA), doe = since - era * DAYS_PER_ERA;
  int64_t yoe = (doe - doe / 1460 + doe / 36524 - doe / 146096) / 365;
  int64_t doy = doe - (365 * yoe + yoe / 4 - yoe / 100), m = (5 * doy + 2) / 153;
  out->day = (int)(doy - (153 * m + 2) / 5 + 1);
  out->month = (int)(m < 10 ? m + 3 : m - 9);
  out->year = yoe + era * 400 + (out->month <= 2);
  out->hour = (int)(rest / MS_PER_HOUR);
  out->minute = (int)(rest / MS_PER_MINUTE % 60);
  out->second = (int)(rest / MS_PER_SECOND % 60);
  out->millisecond = (int)(rest % MS_PER_SECOND);
  int64_t weekday = (days + 4) % 7; // 1970-01-01 was a Thursday
  out->weekday = (int)(weekday < 0 ? weekday + 7 : weekday);
  out->year_day = (int)(days - date_days(out->year, 1, 1) + 1);
}

int64_t date_join(const struct date_parts *p) {
  int64_t days = date_days(p->year, p->month, p->day);
  return ((days * 24 + p->hour) * 60 + p->minute) * MS_PER_MINUTE + (int64_t)p->second * MS_PER_SECOND + p->millisecond;
}

int date_month_length(int64_t year, int month) {
  return (int)(date_days(year, month + 1, 1) - date_days(year, month, 1));
}

// The week belongs to the year that its Thursday is in.
void date_iso_week(const struct date_parts *p, int64_t *iso_year, int *iso_week) {
  int thursday = p->year_day - (p->weekday + 6) % 7 + 3,
      length = (int)(date_days(p->year + 1, 1, 1) - date_days(p->year, 1, 1));
  *iso_year = p->year;
  if (thursday < 1) {
    *iso_year = p->year - 1;
    thursday += (int)(date_days(p->year, 1, 1) - date_days(p->year - 1, 1, 1));
  } else if (thursday > length) {
    *iso_year = p->year + 1;
    thursday -= length;
  }
  *iso_week = (thursday - 1) / 7 + 1;
}

int64_t date_shift(int64_t ms, int64_t by) {
  int64_t out;
  return __builtin_add_overflow(ms, by, &out) ? (by < 0 ? INT64_MIN : INT64_MAX) : out;
}

static bool two_digits(const char *s, int *out) {
  if (s[0] < '0' || s[0] > '9' || s[1] < '0' || s[1] > '9') return false;
  *out = (s[0] - '0') * 10 + (s[1] - '0');
  return true;
}

// "+hh", "+hhmm" or "+hh:mm", nothing behind.
static bool numeric_offset(const char *s, int64_t *offset_ms) {
  int hours, minutes = 0;
  if ((s[0] != '+' && s[0] != '-') || !two_digits(s + 1, &hours)) return false;
  const char *rest = s + 3;
  if (*rest) {
    if (*rest == ':') rest++;
    if (!two_digits(rest, &minutes) || rest[2]) return false;
  }
  *offset_ms = (s[0] == '-' ? -1 : 1) * ((int64_t)hours * MS_PER_HOUR + (int64_t)minutes * MS_PER_MINUTE);
  return true;
}

bool date_zone_offset(const char *zone, int64_t *offset_ms, struct error *err) {
  *offset_ms = 0;
  if (strcmp(zone, "UTC") == 0 || strcmp(zone, "GMT") == 0 || strcmp(zone, "Z") == 0) return true;
  if (numeric_offset(zone, offset_ms)) return true;
  if (strchr(zone, '/') || (zone[0] >= 'A' && zone[0] <= 'Z')) {
    return error_set(err, ERR_CommandNotSupported,
                     "time zone names are not supported, only UTC, GMT and offsets such as +02:00: \"%s\"", zone);
  }
  return error_set(err, 40485, "unrecognized time zone identifier: \"%s\"", zone);
}

bool date_parse(const char *text, int64_t *ms) {
  struct date_parts p = {0};
  int year, used = 0, fraction_start = 0;
  int64_t offset = 0;
  if (sscanf(text, "%4d-%2d-%2d%n", &year, &p.month, &p.day, &used) != 3 || used != 10) return false;
  p.year = year;
  const char *rest = text + used;
  if (*rest == 'T' || *rest == ' ') {
    rest++;
    if (!two_digits(rest, &p.hour) || rest[2] != ':' || !two_digits(rest + 3, &p.minute)) return false;
    rest += 5;
    if (*rest == ':') {
      if (!two_digits(rest + 1, &p.second)) return false;
      rest += 3;
    }
    if (*rest == '.') {
      rest++;
      int scale = 100;
      for (; *rest >= '0' && *rest <= '9'; rest++, fraction_start = 1, scale /= 10)
        p.millisecond += (*rest - '0') * scale;
      if (!fraction_start) return false;
    }
  }
  if (*rest == 'Z' && !rest[1])
    rest++;
  else if (*rest && numeric_offset(rest, &offset))
    rest += strlen(rest);
  bool valid = p.month >= 1 && p.month <= 12 && p.day >= 1 && p.day <= date_month_length(p.year, p.month) &&
               p.hour < 24 && p.minute < 60 && p.second < 60;
  if (*rest || !valid) return false;
  *ms = date_shift(date_join(&p), -offset);
  return true;
}
