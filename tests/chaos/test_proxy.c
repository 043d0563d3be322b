// The proxies between "daemons" that are sockets of this test, and the replay of a schedule.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/chaos/faults.h"
#include "tests/chaos/proxy.h"
#include "tests/integration/harness.h"

enum { CALLER, LISTENER, SOON_MS = 200, LATER_MS = 10000 };

struct pair {
  struct proxies *p;
  int listener, a, b; // a: who connected through the proxy, b: the accepted end
};

static struct sockaddr_in loopback(int port) {
  struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return to;
}

static struct pair connect_pair(void) {
  struct pair x = {.p = proxies_start(2), .listener = socket(AF_INET, SOCK_STREAM, 0)};
  int port = free_port();
  struct sockaddr_in own = loopback(port);
  assert_non_null(x.p);
  assert_int_equal(bind(x.listener, (struct sockaddr *)&own, sizeof own), 0);
  assert_int_equal(listen(x.listener, 4), 0);
  int proxy_port = proxies_add(x.p, LISTENER, port);
  assert_true(proxy_port > 0);
  proxies_pid(x.p, CALLER, getpid()); // found in /proc as the owner of the connecting socket
  x.a = socket(AF_INET, SOCK_STREAM, 0);
  struct sockaddr_in to = loopback(proxy_port);
  assert_int_equal(connect(x.a, (struct sockaddr *)&to, sizeof to), 0);
  x.b = accept(x.listener, NULL, NULL);
  assert_true(x.b >= 0);
  return x;
}

static void end_pair(struct pair *x) {
  (void)close(x->a);
  (void)close(x->b);
  (void)close(x->listener);
  proxies_stop(x->p);
}

static bool arrives(int from, int to, int ms) {
  char byte = 'x';
  struct pollfd f = {.fd = to, .events = POLLIN};
  if (from >= 0) assert_int_equal(send(from, &byte, 1, MSG_NOSIGNAL), 1);
  return poll(&f, 1, ms) == 1 && recv(to, &byte, 1, 0) == 1;
}

static void directions(void **state) {
  struct pair x = connect_pair();
  assert_true(arrives(x.a, x.b, LATER_MS) && arrives(x.b, x.a, LATER_MS));
  proxies_rule(x.p, CALLER, LISTENER, RULE_SILENT, 0);
  wait_ms(SOON_MS);
  assert_false(arrives(x.a, x.b, SOON_MS));
  assert_true(arrives(x.b, x.a, LATER_MS)); // the other way is open
  proxies_pass_all(x.p);
  assert_true(arrives(-1, x.b, LATER_MS)); // what was held back
  proxies_rule(x.p, LISTENER, CALLER, RULE_PASS, 300);
  wait_ms(SOON_MS);
  int64_t begin = now_ms();
  assert_true(arrives(x.b, x.a, LATER_MS));
  assert_true(now_ms() - begin >= 250);
  end_pair(&x);
}

static void cut(void **state) {
  struct pair x = connect_pair();
  proxies_rule(x.p, LISTENER, CALLER, RULE_CUT, 0);
  struct pollfd f = {.fd = x.a, .events = POLLIN};
  char byte;
  assert_int_equal(poll(&f, 1, LATER_MS), 1);
  assert_true(recv(x.a, &byte, 1, 0) <= 0);
  end_pair(&x);
}

static bool equal(const struct fault *a, const struct fault *b) {
  return a->at_ms == b->at_ms && a->duration_ms == b->duration_ms && a->kind == b->kind && a->set == b->set &&
         a->other_set == b->other_set && a->member == b->member && a->delay_ms == b->delay_ms && a->reset == b->reset;
}

static void schedules_replay(void **state) {
  const struct fault_plan plan = {.sets = 3, .members = 3, .config_members = 3, .routers = 2, .run_ms = 600000};
  for (int lane = 0; lane < LANES; lane++) {
    struct fault *one, *same, *other;
    size_t n = faults_plan(5, lane, &plan, &one), m = faults_plan(5, lane, &plan, &same),
           k = faults_plan(6, lane, &plan, &other);
    assert_int_equal(n, m);
    assert_true(n > 50);
    for (size_t i = 0; i < n; i++) assert_true(equal(&one[i], &same[i]));
    assert_true(k != n || !equal(&one[0], &other[0]));
    for (size_t i = 1; i < n; i++) assert_true(one[i].at_ms >= one[i - 1].at_ms + one[i - 1].duration_ms);
    free(one);
    free(same);
    free(other);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(directions), cmocka_unit_test(cut),
                                     cmocka_unit_test(schedules_replay)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
