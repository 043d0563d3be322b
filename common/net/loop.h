// One event loop and its fibers: the thread that touches data.
//
// A fiber is a stack of its own (ucontext), so that code which waits reads top to bottom. No fiber runs inside a
// library's callback: callbacks mark fibers ready, the scheduler runs them. Everything here belongs to one thread, but
// for loop_post().
//
// THE RULE OF YIELDING: a function that may yield takes a `struct operation *`; a function that takes none never
// yields. (An operation's arena, for code that must not yield, is passed as the arena.) Over a yield the world can
// change: what was checked before is checked again in the uninterrupted step that acts on it.
#ifndef SHARDLET_NET_LOOP_H
#define SHARDLET_NET_LOOP_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "common/base/error.h"

struct loop;
struct fiber;

enum { FIBER_STACK_BYTES = 256 * 1024 };

struct loop *loop_new(void);
void loop_run(struct loop *l);  // until loop_stop() and until no fiber is left
void loop_stop(struct loop *l); // from the loop's own thread
void loop_free(struct loop *l);
uv_loop_t *loop_uv(struct loop *l);
int64_t loop_now_ms(const struct loop *l); // monotonic, as of this turn

// Runs fn(arg) in the loop's thread; may be called from any thread.
void loop_post(struct loop *l, void (*fn)(void *arg), void *arg);
// Runs fn(arg) in this turn, after the ready fibers: for what a callback must not do itself.
void loop_defer(struct loop *l, void (*fn)(void *arg), void *arg);

// Starts a fiber (it runs in this turn or the next, never inside this call). name: for the log's "ctx"; copied.
struct fiber *fiber_start(struct loop *l, const char *name, void (*fn)(void *arg), void *arg);
struct fiber *fiber_current(struct loop *l); // NULL outside of fibers
size_t loop_fibers(const struct loop *l);    // alive

// The two primitives; everything else is made of them. fiber_park() returns when fiber_ready() was called for it since
// it parked or just before (one token is remembered). Use the waits of operation.h instead, which know deadlines and
// kills.
void fiber_park(struct loop *l);
void fiber_ready(struct fiber *f);

#endif
