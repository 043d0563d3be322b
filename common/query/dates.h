// Calendar arithmetic on BSON dates (milliseconds since 1970, UTC), proleptic Gregorian calendar.
#ifndef SHARDLET_QUERY_DATES_H
#define SHARDLET_QUERY_DATES_H

#include <bson/bson.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/base/error.h"

enum { MS_PER_SECOND = 1000, MS_PER_MINUTE = 60000, MS_PER_HOUR = 3600000, MS_PER_DAY = 86400000 };

struct date_parts {
  int64_t year;
  int month, day; // from 1
  int hour, minute, second, millisecond;
  int weekday;  // 0 = Sunday
  int year_day; // from 1
};

int64_t date_floor_div(int64_t a, int64_t b); // b > 0; rounds down
int64_t date_shift(int64_t ms, int64_t by);   // ms + by, at the ends of the range no further
void date_split(int64_t ms, struct date_parts *out);
int64_t date_join(const struct date_parts *p);       // weekday and year_day are not looked at
int64_t date_days(int64_t year, int month, int day); // since 1970-01-01; the month may be out of 1..12
int date_month_length(int64_t year, int month);
void date_iso_week(const struct date_parts *p, int64_t *iso_year, int *iso_week);

// "UTC", "GMT", "Z", "+hh", "+hhmm", "+hh:mm": the offset in ms. Names of places are refused by name.
bool date_zone_offset(const char *zone, int64_t *offset_ms, struct error *err);

// An ISO 8601 date, with or without time and zone. false: it is none.
bool date_parse(const char *text, int64_t *ms);

#endif
