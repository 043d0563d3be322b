// An outgoing connection: connect, send a message, receive one; or raw bytes. Internal to common/net.
#ifndef SHARDLET_NET_CHANNEL_H
#define SHARDLET_NET_CHANNEL_H

#include "common/base/buf.h"
#include "common/net/frame.h"
#include "common/net/operation.h"

enum { CHANNEL_READ_BYTES = 64 * 1024 };

struct channel {
  uv_tcp_t tcp;
  struct loop *loop;
  struct channel *next, *prev; // its owner's list
  uint8_t *scratch;            // CHANNEL_READ_BYTES, shared by the channels of a loop
  struct frame frame;          // the message that is arriving
  struct buf early;            // what came behind it
  struct event progress;       // connected, a message is whole, failed
  bool connected, direct;
  int32_t last_id;
  int32_t fail_code; // 0 = usable
  const char *fail_text;

  // Raw bytes once on_data is set. A channel without a reader that waits reports its failure here as well (NULL: to
  // nobody).
  void (*on_data)(void *ctx, const uint8_t *data, size_t len);
  void (*on_fail)(void *ctx, struct channel *c);
  void *ctx;
};

// A connection that is being made, for those who may give up on it from outside. It lives on the stack of who makes it.
struct opening {
  struct channel *c; // NULL while a name is looked up
  int32_t fail_code; // given up: no other address is tried
  const char *fail_text;
  struct opening *next, *prev; // its owner's list
};
void opening_fail(struct opening *o, int32_t code, const char *text);

// Connects to the first address of `host` that answers. until_ms: as loop_now_ms(). o: NULL, or how to give it up; its
// channel stays there when this has succeeded. NULL: HostUnreachable, HostNotFound, NetworkTimeout, or the operation's
// end.
struct channel *channel_open(struct operation *op, const char *host, uint8_t *scratch, struct opening *o,
                             int64_t until_ms, struct error *err);
// Ends it; what is unsent is dropped. No callback comes afterwards. Not for a channel that somebody waits on.
void channel_close(struct channel *c);
// Makes it unusable and wakes who waits on it.
void channel_fail(struct channel *c, int32_t code, const char *text);

// Sends bytes. What does not go at once is taken over: *bytes is empty then, else unchanged. false: it has failed, and
// *sent says whether any byte was given to the socket.
bool channel_send(struct channel *c, struct buf *bytes, bool *sent);
size_t channel_backlog(const struct channel *c);
// Waits for one whole message, the caller's from then on.
bool channel_receive(struct operation *op, struct channel *c, int64_t until_ms, struct buf *message, struct error *err);

// From now on what arrives goes to on_data, what has arrived already at once.
void channel_make_raw(struct channel *c, void (*on_data)(void *ctx, const uint8_t *data, size_t len));

#endif
