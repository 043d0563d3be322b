// Consensus of one member of a set: events in, updates out. The Raft algorithm, by libraft's raft_step() behind a
// filter.
//
// Pure: no I/O, no clock (every event brings the time, in milliseconds that never go back), no randomness but the seed.
// So a whole set runs in virtual time in tests (tests/unit/common/repl/test_consensus.c). What it wants done it says
// through struct consensus_output, called during the event in this order: vote, append or install, send. Those
// functions must not call back. After each event the caller looks at consensus_commit(), consensus_role() and
// consensus_timer() again.
//
// The caller's duties
// - vote: term and vote are durable before any message of this or a later call leaves, and before later appends are.
// - append: writes are done in the order given; each is reported once, oldest first, by consensus_persisted(), also one
//   that a later append or install has overtaken. Which of them raft may hear of is decided here.
// - Entries are applied in order up to consensus_commit(), and each is reported by consensus_applied().
// - A failed write is never reported: the process ends instead.
//
// libraft 0.22.1 is not safe as it comes: a simulation found eight faults (numbered 1 to 8 in consensus*.c where each
// is kept away) and rules of membership that it does not enforce (consensus_members.c).
#ifndef SHARDLET_REPL_CONSENSUS_H
#define SHARDLET_REPL_CONSENSUS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/buf.h"
#include "common/base/error.h"
#include "common/repl/entry.h"

enum member_role { ROLE_STANDBY = 0, ROLE_VOTER = 1, ROLE_SPARE = 2 }; // libraft's numbers; a spare gets no entries
enum consensus_role { CONSENSUS_FOLLOWER, CONSENSUS_CANDIDATE, CONSENSUS_LEADER };
enum { CONSENSUS_MAX_MEMBERS = 50 };

struct member {
  uint64_t id;
  char *address;
  enum member_role role;
};

struct members { // owns its addresses
  struct member *list;
  size_t n;
};

void members_add(struct members *m, uint64_t id, const char *address, enum member_role role);
const struct member *members_find(const struct members *m, uint64_t id); // NULL = not there
size_t members_voters(const struct members *m);
void members_free(struct members *m);
struct entry *members_encode(const struct members *m); // as an ENTRY_CHANGE of term 0
// false: not an encoding of at most CONSENSUS_MAX_MEMBERS members. Checks every length: it may come from the network.
bool members_decode(const uint8_t *data, size_t len, struct members *out);

struct snapshot_mark {         // what a snapshot ends with
  uint64_t index, term;        // index 0 = no snapshot
  struct entry *configuration; // the members as of index
  uint64_t configuration_index;
};

enum message_kind { // libraft's numbers
  RAFT_MSG_APPEND = 1,
  RAFT_MSG_APPEND_RESULT = 2,
  RAFT_MSG_VOTE = 3,
  RAFT_MSG_VOTE_RESULT = 4,
  RAFT_MSG_SNAPSHOT = 5,
  RAFT_MSG_TIMEOUT_NOW = 6,
};

struct consensus_message {
  enum message_kind kind;
  uint64_t peer;       // receiver of one that is sent, sender of one that is received
  const char *address; // the peer's
  uint64_t term;
  uint64_t index,
      index_term;         // append: the entry before the first; vote, timeout now: last of the log; snapshot: its end
  uint64_t last;          // append result: last index that is stored
  uint64_t commit;        // append
  uint64_t rejected;      // append result: 0 = success
  bool granted, pre_vote; // vote, vote result
  bool disrupt;           // vote: asked for by a leader that hands over
  bool caretaker;         // vote: from a member that is not to stay primary
  struct entry **entries; // append: the sender of the message fills them in, from its log
  uint32_t n_entries;
  struct entry *configuration; // snapshot
  uint64_t configuration_index;
  struct entry *snapshot; // snapshot: a small document; the sender of the message fills it in
};

// One message as bytes, for a stream: u32le length of the rest, then the rest.
void message_encode(struct buf *to, const struct consensus_message *m);
// `len` bytes after the length word. Entries are new references: message_clear(). false: malformed.
bool message_decode(const uint8_t *data, size_t len, struct consensus_message *out);
void message_clear(struct consensus_message *m); // drops entries, configuration and snapshot of a decoded message

struct consensus_output {
  void *ctx;
  void (*vote)(void *ctx, uint64_t term, uint64_t voted_for);
  void (*append)(void *ctx, uint64_t first, struct entry *const *entries,
                 size_t n); // replaces what the log has from `first` on
  void (*install)(void *ctx, const struct snapshot_mark *mark, struct entry *snapshot); // replaces the whole log
  // m is valid during the call. For RAFT_MSG_APPEND: entries index+1 .. index+n_entries of the log are to be added.
  void (*send)(void *ctx, const struct consensus_message *m);
};

struct consensus_options {
  uint64_t id;
  const char *address;
  uint32_t election_timeout_ms; // a follower waits 1 to 2 times this for a leader
  uint32_t heartbeat_ms;
  uint32_t snapshot_timeout_ms; // an install that takes longer is sent again
  uint32_t max_inflight;        // entries sent to a member and not acknowledged yet
  uint32_t seed;
};

struct log_head { // an entry of the log at start: only changes of members need their data
  uint64_t term;
  uint8_t type;
  struct entry *change; // of an ENTRY_CHANGE
};

struct consensus_state { // what was durable; all zero = an empty log that waits to be added to a set
  uint64_t term, voted_for;
  struct snapshot_mark snapshot;
  uint64_t first; // of heads[0]; <= snapshot.index + 1
  const struct log_head *heads;
  size_t n;
};

struct consensus;

// output and options are copied, the address too.
struct consensus *consensus_new(const struct consensus_options *o, const struct consensus_output *output);
void consensus_free(struct consensus *c);

// Fault 8: a lone voter must begin with a fresh term. Whether `id` is that: the caller then stores term + 1 and a vote
// for itself before it calls consensus_start() with them.
bool consensus_lone_voter(const struct consensus_state *s, uint64_t id);
// err: the state contradicts itself.
bool consensus_start(struct consensus *c, uint64_t now, const struct consensus_state *s, struct error *err);

// --- events ---
void consensus_timeout(struct consensus *c, uint64_t now); // at consensus_timer()
void consensus_receive(struct consensus *c, uint64_t now, const struct consensus_message *m);
void consensus_persisted(struct consensus *c, uint64_t now, size_t writes); // the `writes` oldest appends are durable
void consensus_installed(struct consensus *c, uint64_t now);                // the snapshot is, and the log is empty
void consensus_applied(struct consensus *c, uint64_t now, uint64_t index, struct entry *e);
// Everything up to `index` (applied) is durable outside of the log. Entries up to index - trailing are forgotten.
// false: not now (an older or equal snapshot, one being installed, or entries not durable yet).
bool consensus_snapshot(struct consensus *c, uint64_t now, uint64_t index, uint64_t trailing);
// Proposes an entry (takes a reference of its own, sets its term). 0: not the leader, or handing over.
uint64_t consensus_propose(struct consensus *c, uint64_t now, struct entry *e);

// --- members ---
// One change: a member added as stand-by or spare, a caught-up one made voter, one demoted or removed; never the leader
// itself. err: ConfigurationInProgress-like refusals name the rule; try again later.
bool consensus_change(struct consensus *c, uint64_t now, const struct members *m, struct error *err);
bool consensus_can_change(const struct consensus *c);                    // whether the rules allow one now
bool consensus_catch_up(struct consensus *c, uint64_t now, uint64_t id); // starts; only for a non-voter of ours that
                                                                         // has not caught up
bool consensus_caught_up(const struct consensus *c, uint64_t id);
bool consensus_transfer(struct consensus *c, uint64_t now,
                        uint64_t id); // hands over; gives up by itself after an election timeout
// A member that is not eligible (priority 0, frozen, stepped down, syncing) votes but does not stand, also when a
// leader hands over to it; see consensus_caretaker().
void consensus_set_eligible(struct consensus *c, bool eligible);
void consensus_set_election_timeout(struct consensus *c, uint32_t ms);

// --- state ---
enum consensus_role consensus_role(const struct consensus *c);
bool consensus_caretaker(
    const struct consensus *c); // leads without being eligible: never primary, hands over by itself
bool consensus_transferring(const struct consensus *c);
uint64_t consensus_term(const struct consensus *c);
uint64_t consensus_leader(const struct consensus *c); // 0 = unknown
uint64_t
consensus_commit(const struct consensus *c); // never goes back; stands still while a snapshot is being installed
uint64_t consensus_first(const struct consensus *c); // of the log
uint64_t consensus_last(const struct consensus *c);
uint64_t consensus_term_of(const struct consensus *c, uint64_t index); // 0 = not in the log
uint64_t consensus_timer(const struct consensus *c);
bool consensus_installing(const struct consensus *c);
uint64_t consensus_match(const struct consensus *c,
                         uint64_t id); // leader: last index that member is known to have stored; 0 = none
const struct members *consensus_members(const struct consensus *c); // the newest in the log, committed or not
bool consensus_is_member(const struct consensus *c);                // in any role
bool consensus_alone(const struct consensus *c); // this member is the only voter, and no change of that is under way
bool consensus_members_pending(const struct consensus *c); // they are not committed yet
const struct snapshot_mark *consensus_last_snapshot(const struct consensus *c);

#endif
