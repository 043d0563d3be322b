// Clients that write into a range of `test.moving` while it is moved and daemons are killed, and remember what they
// were told.
//
// Each writer is alone on its keys, so that it knows what must be there: counters by $inc with upsert, inserted
// documents, and documents it deleted again. What a failed statement did is unknown, and either outcome is accepted.
#ifndef SHARDLET_TESTS_WRITERS_H
#define SHARDLET_TESTS_WRITERS_H

#include "tests/integration/harness.h"

enum { WRITER_KEYS = 1000 }; // of customerId: writer w has [w * 1000, (w + 1) * 1000)

struct writers;

struct writers *writers_start(const struct process *const *routers, int n); // one thread each
void writers_stop(struct writers *w);
int64_t writers_acknowledged(const struct writers *w);
// Reads everything through this router: every acknowledged effect is there exactly once, nothing else is.
void writers_verify(struct writers *w, mongoc_client_t *router);
void writers_free(struct writers *w);

#endif
