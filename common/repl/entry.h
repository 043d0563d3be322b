// An entry of the replicated log in memory: immutable once it is in a log, shared by reference count.
//
// Counts are changed by the loop's thread only; whoever hands an entry to the thread pool holds a reference for it.
#ifndef SHARDLET_REPL_ENTRY_H
#define SHARDLET_REPL_ENTRY_H

#include <bson/bson.h>
#include <stddef.h>
#include <stdint.h>

enum entry_type {    // libraft's numbers; kept in raft.sqlite
  ENTRY_COMMAND = 1, // a document of effects, see store/change.h
  ENTRY_BARRIER = 2, // nothing to apply
  ENTRY_CHANGE = 3,  // the members of the set, in libraft's encoding
};

struct entry {
  uint32_t refs;
  uint32_t len;
  uint64_t term; // set when it is proposed
  uint8_t type;
  _Alignas(8) uint8_t data[];
};

struct entry *entry_new(enum entry_type type, uint64_t term, const void *data, size_t len); // copies data
struct entry *entry_ref(struct entry *e);
void entry_unref(struct entry *e);                   // NULL allowed
void entry_doc(const struct entry *e, bson_t *view); // of an ENTRY_COMMAND

#endif
