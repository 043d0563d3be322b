// Stacks and the switch between them: what loop.c makes its fibers of. Internal to common/net.
#ifndef SHARDLET_NET_FIBER_H
#define SHARDLET_NET_FIBER_H

#include <setjmp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Where a thread of control stands while another runs.
struct context {
  jmp_buf jump;
  const void *stack; // lowest usable address; NULL for the thread's own stack until a fiber has told it
  size_t stack_bytes;
  void *fake_stack; // the address sanitizer's
};

// A stack with a routine that runs on it for as long as the stack lives.
struct stack {
  struct context context;
  uint8_t *mapping;     // the guard page, then the stack
  struct context *from; // who entered it last; NULL before the first time
  void (*routine)(void *arg);
  void *arg;
};

// A mapped stack with a guard page below it. routine(arg) begins at the first switch and must never return. The process
// ends when there is no memory for it. `s` must stay where it is.
void stack_new(struct stack *s, void (*routine)(void *arg), void *arg);
void stack_free(struct stack *s); // not the one that runs

// Goes on in `s`, until that leaves.
void stack_enter(struct context *from, struct stack *s);
// On the stack `s` itself: goes back to who entered it, until it is entered again.
void stack_leave(struct stack *s);

#endif
