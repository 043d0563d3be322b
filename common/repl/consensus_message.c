// Raft's messages as bytes. Everything that comes in is checked: libraft checks nothing.
//
//   u32 length of what follows | u8 kind | u8 flags | u16 version | u64 term, index, index_term, last, commit,
//   rejected, configuration_index | u32 n entries | n x {u64 term, u8 type, u32 length, data} | u32 length, members |
//   u32 length, snapshot
//
// Little-endian. A second version of the format would have another version number and be refused by this one.
#include "common/repl/consensus.h"

#include <stdlib.h>
#include <string.h>

enum { VERSION = 1, HEAD_BYTES = 60, ENTRY_HEAD_BYTES = 13, MAX_ENTRIES = 65536 };
enum { FLAG_GRANTED = 1, FLAG_PRE_VOTE = 2, FLAG_DISRUPT = 4, FLAG_CARETAKER = 8 };

static void put_u64(struct buf *to, uint64_t v) {
  buf_add_u32le(to, (uint32_t)v);
  buf_add_u32le(to, (uint32_t)(v >> 32));
}

static void put_blob(struct buf *to, const struct entry *e) {
  buf_add_u32le(to, e ? e->len : 0);
  if (e) buf_add(to, e->data, e->len);
}

void message_encode(struct buf *to, const struct consensus_message *m) {
  size_t start = to->len;
  buf_add_u32le(to, 0);
  buf_add_byte(to, (uint8_t)m->kind);
  buf_add_byte(to, (uint8_t)((m->granted ? FLAG_GRANTED : 0) | (m->pre_vote ? FLAG_PRE_VOTE : 0) |
                             (m->disrupt ? FLAG_DISRUPT : 0) | (m->caretaker ? FLAG_CARETAKER : 0)));
  buf_add_byte(to, VERSION);
  buf_add_byte(to, 0);
  const uint64_t words[] = {m->term, m->index, m->index_term, m->last, m->commit, m->rejected, m->configuration_index};
  for (size_t i = 0; i < sizeof words / sizeof *words; i++) put_u64(to, words[i]);
  buf_add_u32le(to, m->n_entries);
  for (uint32_t i = 0; i < m->n_entries; i++) {
    const struct entry *e = m->entries[i];
    put_u64(to, e->term);
    buf_add_byte(to, e->type);
    put_blob(to, e);
  }
  put_blob(to, m->configuration);
  put_blob(to, m->snapshot);
  uint32_t len = (uint32_t)(to->len - start - 4);
  for (int i = 0; i < 4; i++) to->data[start + (size_t)i] = (uint8_t)(len >> (8 * i));
}

struct cursor {
  const uint8_t *at;
  size_t left;
  bool bad;
};

static const uint8_t *take(struct cursor *c, size_t n) {
  static const uint8_t zero[8] = {0};
  if (n > c->left) {
    c->bad = true;
    c->left = 0;
    return n <= sizeof zero ? zero : NULL;
  }
  const uint8_t *p = c->at;
  c->at += n;
  c->left -= n;
  return p;
}

static uint32_t get_u32(struct cursor *c) {
  const uint8_t *p = take(c, 4);
  return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static uint64_t get_u64(struct cursor *c) {
  uint64_t low = get_u32(c);
  return low | (uint64_t)get_u32(c) << 32;
}

static struct entry *get_blob(struct cursor *c, enum entry_type type, uint64_t term) {
  uint32_t len = get_u32(c);
  const uint8_t *data = take(c, len);
  return c->bad ? NULL : entry_new(type, term, data, len);
}

static bool change_valid(const struct entry *e) {
  struct members m;
  if (!members_decode(e->data, e->len, &m)) return false;
  members_free(&m);
  return true;
}

static bool get_entries(struct cursor *c, struct consensus_message *m) {
  uint32_t n = get_u32(c);
  if (c->bad || n > MAX_ENTRIES || n > c->left / ENTRY_HEAD_BYTES) return false;
  size_t cap = 0;
  m->entries = n ? array_grow(NULL, &cap, n, sizeof(struct entry *)) : NULL;
  for (uint32_t i = 0; i < n; i++) {
    uint64_t term = get_u64(c);
    uint8_t type = *take(c, 1);
    if (c->bad || !term || type < ENTRY_COMMAND || type > ENTRY_CHANGE) return false;
    struct entry *e = get_blob(c, (enum entry_type)type, term);
    if (!e) return false;
    m->entries[m->n_entries++] = e;
    if (type == ENTRY_CHANGE && !change_valid(e)) return false;
  }
  return true;
}

// What libraft relies on without looking.
static bool plausible(const struct consensus_message *m) {
  if (!m->term || (m->index && !m->index_term)) return false;
  switch (m->kind) {
  case RAFT_MSG_APPEND: return m->index || !m->index_term;
  case RAFT_MSG_APPEND_RESULT: return !m->rejected || m->last < m->rejected;
  case RAFT_MSG_SNAPSHOT:
    return m->index && m->configuration && m->snapshot && m->configuration_index && change_valid(m->configuration);
  case RAFT_MSG_VOTE:
  case RAFT_MSG_VOTE_RESULT:
  case RAFT_MSG_TIMEOUT_NOW: return true;
  }
  return false;
}

bool message_decode(const uint8_t *data, size_t len, struct consensus_message *out) {
  *out = (struct consensus_message){0};
  if (len < HEAD_BYTES || data[2] != VERSION || data[3] != 0) return false;
  out->kind = (enum message_kind)data[0];
  out->granted = data[1] & FLAG_GRANTED;
  out->pre_vote = data[1] & FLAG_PRE_VOTE;
  out->disrupt = data[1] & FLAG_DISRUPT;
  out->caretaker = data[1] & FLAG_CARETAKER;
  struct cursor c = {data + 4, len - 4, false};
  uint64_t *const words[] = {&out->term,   &out->index,    &out->index_term,         &out->last,
                             &out->commit, &out->rejected, &out->configuration_index};
  for (size_t i = 0; i < sizeof words / sizeof *words; i++) *words[i] = get_u64(&c);
  bool ok = get_entries(&c, out);
  if (ok && out->kind == RAFT_MSG_SNAPSHOT) {
    out->configuration = get_blob(&c, ENTRY_CHANGE, out->index_term);
    out->snapshot = get_blob(&c, ENTRY_COMMAND, out->index_term);
  } else if (ok) {
    ok = get_u64(&c) == 0; // neither members nor a snapshot
  }
  if (ok && !c.bad && !c.left && plausible(out)) return true;
  message_clear(out);
  return false;
}

void message_clear(struct consensus_message *m) {
  for (uint32_t i = 0; i < m->n_entries; i++) entry_unref(m->entries[i]);
  free(m->entries);
  entry_unref(m->configuration);
  entry_unref(m->snapshot);
  m->entries = NULL;
  m->n_entries = 0;
  m->configuration = m->snapshot = NULL;
}
