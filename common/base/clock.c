// The system's clocks and random numbers.
#include "common/base/clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <time.h>

static int64_t read_clock(clockid_t id, int64_t per_second) {
  struct timespec ts;
  (void)clock_gettime(id, &ts);
  return (int64_t)ts.tv_sec * per_second + (int64_t)ts.tv_nsec / (1000000000 / per_second);
}

int64_t clock_wall_ms(void) {
  return read_clock(CLOCK_REALTIME, 1000);
}

int64_t clock_mono_us(void) {
  return read_clock(CLOCK_MONOTONIC, 1000000);
}

int64_t clock_mono_ms(void) {
  return read_clock(CLOCK_MONOTONIC, 1000);
}

void random_bytes(void *to, size_t n) {
  uint8_t *p = to;
  while (n) {
    ssize_t got = getrandom(p, n > 256 ? 256 : n, 0); // up to 256 bytes are never cut short
    if (got <= 0) {
      (void)fprintf(stderr, "the system gives no random numbers\n");
      _Exit(14);
    }
    p += got;
    n -= (size_t)got;
  }
}

uint64_t random_u64(void) {
  uint64_t v;
  random_bytes(&v, sizeof v);
  return v;
}

void uuid_new(uint8_t uuid[16]) {
  random_bytes(uuid, 16);
  uuid[6] = (uint8_t)((uuid[6] & 0x0F) | 0x40);
  uuid[8] = (uint8_t)((uuid[8] & 0x3F) | 0x80);
}

void uuid_text(const uint8_t uuid[16], char text[37]) {
  char *at = text;
  for (int i = 0; i < 16; i++) {
    if (i == 4 || i == 6 || i == 8 || i == 10) *at++ = '-';
    (void)snprintf(at, 3, "%02x", uuid[i]);
    at += 2;
  }
}

void random_shuffle(void *items, size_t n, size_t size) {
  uint8_t *at = items, kept[1024];
  for (size_t i = n; i > 1 && size <= sizeof kept; i--) {
    uint8_t *last = at + (i - 1) * size, *other = at + random_u64() % i * size;
    memcpy(kept, last, size);
    memmove(last, other, size); // they may be the same
    memcpy(other, kept, size);
  }
}
