// What this machine can do at best, measured in the same run as what we do: the denominators of the table.
#ifndef SHARDLET_BENCH_LIMITS_H
#define SHARDLET_BENCH_LIMITS_H

#include <stddef.h>
#include <stdint.h>

// Median round trip of `request` bytes there and `reply` bytes back, to a process that does nothing else, in
// microseconds.
double limit_ping_pong_us(size_t request, size_t reply, int rounds);

// The same through a process in between, as a router is: client - relay - echo and back. With sync_folder not NULL the
// echo writes 4 KiB and calls fdatasync before it answers.
double limit_chain_us(size_t request, size_t reply, int rounds, const char *sync_folder);

// Round trips a second of `clients` sockets through two processes (client - relay - echo), both on libuv.
double limit_two_hop_per_s(size_t request, size_t reply, int clients, double seconds);

// Median time of writing 4 KiB into an allocated file in `folder`, and fdatasync, in microseconds.
double limit_fdatasync_us(const char *folder, int rounds);

// The parts: such a file, already unlinked; one write with its fdatasync.
int sync_file_open(const char *folder, int pages);
void sync_file_write(int fd, int page);

// Rows a second of documents straight into SQLite with two indexes: one thread, prepared statements, 20,000 a
// transaction.
double limit_sqlite_rows_per_s(const char *folder, int rows);

// Seconds to copy rows of documents (277 bytes) file to file with SQLite, keeping two indexes on the target.
double limit_sqlite_copy_s(const char *folder, int rows);

// Drives `clients` sockets on `port`, each sending `message` and waiting for one wire message, for this long.
// Returns round trips a second. Also used against the real router.
double load_per_s(int port, const void *message, size_t n, int clients, double seconds);

double now_us(void);
double cpu_us(void);                     // of this process: for what only computes, whoever else uses the processors
double median(double *values, size_t n); // sorts them

#endif
