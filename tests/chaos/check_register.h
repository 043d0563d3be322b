// Is the history of one register linearizable?
//
// The search of Wing and Gong ("Testing and verifying concurrent objects", 1993) with Lowe's memory of configurations
// (2017): operations are put in an order, one at a time, each only when no operation that was answered before its call
// is still to come; (set of operations placed, value) that was seen already is not tried again. Operations of unknown
// outcome may be placed anywhere after their call, or never. Reads that may be stale are not part of it.
//
// Beside it, the documents' versions: each write adds 1, so one version has one value for all who saw it (also stale
// reads), and the last one counts every acknowledged write once and no unknown one twice.
#ifndef SHARDLET_CHAOS_CHECK_REGISTER_H
#define SHARDLET_CHAOS_CHECK_REGISTER_H

#include "tests/chaos/history.h"

enum { REGISTER_ABSENT = 0 }; // the value before the first write

// v->ok false: a violation, said in v->text. true with a text: the search was given up after too many configurations.
bool check_register(const struct history *h, struct verdict *v);
bool check_versions(const struct history *h, struct verdict *v);

#endif
