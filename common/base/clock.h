// Time and randomness. Code that decides by time takes it as a parameter; only the edges call these.
#ifndef SHARDLET_BASE_CLOCK_H
#define SHARDLET_BASE_CLOCK_H

#include <bson/bson.h>
#include <stddef.h>
#include <stdint.h>

int64_t clock_wall_ms(void); // milliseconds since 1970, as BSON dates
int64_t clock_mono_us(void); // microseconds, never goes back
int64_t clock_mono_ms(void);

uint64_t random_u64(void);
void random_bytes(void *to, size_t n);
void random_shuffle(void *items, size_t n, size_t size); // n items of `size` bytes, at most 1024 each
void uuid_new(uint8_t uuid[16]);                         // random, version 4
void uuid_text(const uint8_t uuid[16], char text[37]);   // lower-case, with dashes

#endif
