// Real daemons for tests: started on free loopback ports in a folder of their own, ended by their pid whatever happens.
//
// A failed expectation of the harness itself (a daemon that does not start) fails the running cmocka test.
#ifndef SHARDLET_TESTS_HARNESS_H
#define SHARDLET_TESTS_HARNESS_H

#include <mongoc/mongoc.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

enum { CLUSTER_MAX_SHARDS = 4, CLUSTER_MAX_ROUTERS = 2 };

struct process {
  const char *program; // "shardd" ...
  char name[32];       // of its folder and log
  char folder[256];    // the cluster's
  char arguments[512]; // besides port, log and dbpath
  int port;
  pid_t pid; // 0 = not running
};

struct cluster {
  char folder[256];
  struct process config, shards[CLUSTER_MAX_SHARDS], routers[CLUSTER_MAX_ROUTERS];
  int n_shards, n_routers;
};

// A member of a set of one, initiated, primary. `more`: further arguments, may be "".
void member_start(struct process *p, const char *folder, const char *program, const char *set, const char *more);
void process_start(struct process *p);  // starts (again) what was set up; waits until it answers as usable
void process_launch(struct process *p); // the same without waiting
void process_signal(struct process *p, int signal);
int process_end(struct process *p, int signal); // sends, waits up to 30 s, returns the wait status
bool process_runs(struct process *p);           // reaps it when it has ended

// cfg, sh1..shN, routers, shards added. `shard_arguments`: for every shardd, may be "".
void cluster_start(struct cluster *c, int shards, int routers, const char *shard_arguments);
// Ends all with SIGTERM and asserts that each ended with exit code 0; removes the folder.
void cluster_stop(struct cluster *c);

// A client of one daemon (directConnection on members). Failing commands return; selection waits at most 30 s.
mongoc_client_t *client_of(const struct process *p);

// Runs a command given as JSON with printf's placeholders (single quotes stand for double ones). The reply must be
// destroyed. Returns whether ok was 1.
bool command(mongoc_client_t *c, const char *db, bson_t *reply, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
void must(mongoc_client_t *c, const char *db, const char *fmt, ...) __attribute__((format(printf, 3, 4))); // asserts ok
int must_fail(mongoc_client_t *c, const char *db, const char *fmt, ...)
    __attribute__((format(printf, 3, 4))); // the error's code
int64_t count_documents(mongoc_client_t *c, const char *db, const char *coll, const char *filter_json);
// Of all documents that a find with these options sees, in its order; on a secondary too. *n: how many.
uint64_t content_hash(mongoc_client_t *c, const char *db, const char *coll, const char *options_json, int64_t *n);
int64_t reply_i64(const bson_t *reply, const char *dotted_path); // -1 when missing
void wait_ms(int ms);
int free_port(void);
int64_t now_ms(void);
void folder_make(char folder[256]);
void folder_remove(const char *folder);

#endif
