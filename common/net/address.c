// "host:port" texts and their addresses.
#include "common/net/address.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/buf.h"
#include "common/net/loop_internal.h"

bool address_split(struct arena *a, const char *host, const char **name, int *port, struct error *err) {
  const char *colon = strrchr(host, ':'), *end = host + strlen(host);
  bool bracketed = host[0] == '[';
  if (bracketed) {
    const char *close = strchr(host, ']');
    if (!close || (close[1] && close[1] != ':')) return error_set(err, ERR_BadValue, "'%s' is no host and port", host);
    colon = close[1] ? close + 1 : NULL;
    end = close;
  } else if (colon && colon != strchr(host, ':')) {
    colon = NULL; // an IPv6 address without brackets has no port
  } else if (colon) {
    end = colon;
  }
  const char *begin = host + bracketed;
  *port = DEFAULT_PORT;
  if (colon) {
    char *rest;
    long n = strtol(colon + 1, &rest, 10);
    if (*rest || rest == colon + 1 || n < 1 || n > 65535) {
      return error_set(err, ERR_BadValue, "'%s' has no valid port", host);
    }
    *port = (int)n;
  }
  if (end <= begin) return error_set(err, ERR_BadValue, "'%s' has no host name", host);
  *name = arena_strndup(a, begin, (size_t)(end - begin));
  return true;
}

// A look-up of a name, for all who want it at the same time: a resolver that does not answer holds a thread of the pool
// for each question, and names are asked for again and again while a host is away. It outlives those who gave up on it.
struct lookup {
  uv_getaddrinfo_t request;
  struct loop *loop;
  char *name;
  struct event done_event;
  struct addrinfo *found;
  int status;
  bool done;
  size_t refs; // those who wait, and the resolver
  struct lookup *next;
};

static void lookup_unref(struct lookup *l) {
  if (--l->refs) return;
  uv_freeaddrinfo(l->found);
  bson_free(l->name);
  free(l);
}

static void on_found(uv_getaddrinfo_t *request, int status, struct addrinfo *found) {
  struct lookup *l = request->data, **at = &l->loop->lookups;
  while (*at != l) at = &(*at)->next;
  *at = l->next; // the next one asks anew
  l->done = true;
  l->status = status;
  l->found = found;
  event_signal(&l->done_event);
  lookup_unref(l);
}

// The one under way, or a new one; NULL with *rc when it cannot begin. To be given back.
static struct lookup *lookup_join(struct loop *loop, const char *name, int *rc) {
  struct lookup *l = loop->lookups;
  while (l && strcmp(l->name, name) != 0) l = l->next;
  if (l) {
    l->refs++;
    return l;
  }
  struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
  size_t cap = 0;
  l = array_grow(NULL, &cap, 1, sizeof *l);
  *l = (struct lookup){.loop = loop, .name = bson_strdup(name), .refs = 2, .next = loop->lookups};
  l->request.data = l;
  *rc = uv_getaddrinfo(loop_uv(loop), &l->request, on_found, name, NULL, &hints);
  if (*rc) {
    bson_free(l->name);
    free(l);
    return NULL;
  }
  loop->lookups = l;
  return l;
}

static void take_addresses(const struct addrinfo *found, int port, struct addresses *out) {
  for (const struct addrinfo *i = found; i && out->n < ADDRESSES_MAX; i = i->ai_next) {
    struct sockaddr_storage *to = &out->at[out->n];
    if (i->ai_addrlen > sizeof *to) continue;
    memcpy(to, i->ai_addr, i->ai_addrlen);
    if (to->ss_family == AF_INET6)
      ((struct sockaddr_in6 *)to)->sin6_port = htons((uint16_t)port);
    else
      ((struct sockaddr_in *)to)->sin_port = htons((uint16_t)port);
    out->n++;
  }
}

static bool look_up(struct operation *op, const char *host, const char *name, int port, int64_t until_ms,
                    struct addresses *out, struct error *err) {
  int rc = 0;
  struct lookup *l = lookup_join(op->loop, name, &rc);
  if (!l) return error_set(err, ERR_HostNotFound, "Could not find address for %s: %s", host, uv_strerror(rc));
  bool timed_out = false, ok = true;
  while (!l->done && ok) {
    ok = event_wait_for(op, &l->done_event, until_ms - loop_now_ms(op->loop), &timed_out, err);
  }
  bool done = l->done;
  int status = l->status;
  if (done && status == 0) take_addresses(l->found, port, out);
  lookup_unref(l);
  if (!done) {
    return timed_out ? error_set(err, ERR_NetworkTimeout, "Could not find address for %s in time", host) : false;
  }
  if (out->n) return true;
  return error_set(err, ERR_HostNotFound, "Could not find address for %s: %s", host,
                   status ? uv_strerror(status) : "it has none");
}

bool address_resolve(struct operation *op, const char *host, int64_t until_ms, struct addresses *out,
                     struct error *err) {
  const char *name = NULL;
  int port = DEFAULT_PORT;
  out->n = 0;
  if (!address_split(op->arena, host, &name, &port, err)) return false;
  if (uv_ip4_addr(name, port, (struct sockaddr_in *)&out->at[0]) == 0 ||
      uv_ip6_addr(name, port, (struct sockaddr_in6 *)&out->at[0]) == 0) {
    out->n = 1;
    return true;
  }
  return look_up(op, host, name, port, until_ms, out, err);
}
