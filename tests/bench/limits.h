// What this machine can do at best, measured in the same run as what we do: the denominators of the table.
#ifndef SHARDLET_BENCH_LIMITS_H
#define SHARDLET_BENCH_LIMITS_H

#include <stddef.h>
#include <stdint.h>

// Median round trip of `request` bytes there and `reply` bytes back, to a process that does nothing else, in
// microseconds.
double limit_ping_pong_us(size_t request, size_t reply, int rounds);

// Round trips a second of `clients` sockets through two processes (client - relay - echo), both on libuv.
double limit_two_hop_per_s(size_t request, size_t reply, int clients, double seconds);

// Median time of an fdatasync after appending 4 KiB to a preallocated file in `folder`, in microseconds.
double limit_fdatasync_us(const char *folder, int rounds);

// Rows a second of documents straight into SQLite with two indexes: one thread, prepared statements, 20,000 a
// transaction.
double limit_sqlite_rows_per_s(const char *folder, int rows);

// Seconds to copy rows of documents (277 bytes) file to file with SQLite, keeping two indexes on the target.
double limit_sqlite_copy_s(const char *folder, int rows);

// Drives `clients` sockets on `port`, each sending `message` and waiting for one wire message, for this long.
// Returns round trips a second. Also used against the real router.
double load_per_s(int port, const void *message, size_t n, int clients, double seconds);

double now_us(void);
double median(double *values, size_t n); // sorts them

#endif
