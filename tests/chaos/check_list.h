// Is the history of one list, to which unique values are appended, as one list would give it?
//
// check_list(): nothing is there twice, nothing that was never appended, nothing acknowledged is missing from a later
// strict read, and any two reads agree (one is the beginning of the other).
// check_list_cycles(): the longest read gives the order of the appends, each read has its place in it; with that and
// with real time (what was answered before another was called comes first) there must be no cycle. As Elle does it
// (Kingsbury, Alvaro, 2020), for single operations; strict operations only.
#ifndef SHARDLET_CHAOS_CHECK_LIST_H
#define SHARDLET_CHAOS_CHECK_LIST_H

#include "tests/chaos/history.h"

bool check_list(const struct history *h, struct verdict *v);
bool check_list_cycles(const struct history *h, struct verdict *v); // only where check_list() found nothing

#endif
