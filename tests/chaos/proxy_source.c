// The owners of sockets: the kernel's socket diagnosis gives a socket's inode, /proc/<pid>/fd who has it. See
// proxy_source.h.
#include "tests/chaos/proxy_source.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

int socket_diag_open(void) {
  return socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
}

static unsigned long ask_diag(int diag, const struct socket_end *e) {
  struct {
    struct nlmsghdr head;
    struct inet_diag_req_v2 body;
  } request = {.head = {.nlmsg_len = sizeof request, .nlmsg_type = SOCK_DIAG_BY_FAMILY, .nlmsg_flags = NLM_F_REQUEST},
               .body = {.sdiag_family = AF_INET, .sdiag_protocol = IPPROTO_TCP, .idiag_states = UINT32_MAX}};
  union {
    struct nlmsghdr head;
    uint8_t bytes[2048];
  } reply;
  request.body.id.idiag_sport = htons((uint16_t)e->local_port);
  request.body.id.idiag_dport = htons((uint16_t)e->remote_port);
  request.body.id.idiag_src[0] = request.body.id.idiag_dst[0] = htonl(INADDR_LOOPBACK);
  request.body.id.idiag_cookie[0] = request.body.id.idiag_cookie[1] = INET_DIAG_NOCOOKIE;
  if (send(diag, &request, sizeof request, 0) < 0) return 0;
  ssize_t n = recv(diag, &reply, sizeof reply, 0);
  if (n < (ssize_t)(sizeof reply.head + sizeof(struct inet_diag_msg)) || reply.head.nlmsg_type != SOCK_DIAG_BY_FAMILY)
    return 0;
  return ((const struct inet_diag_msg *)NLMSG_DATA(&reply.head))->idiag_inode;
}

// A line of /proc/net/tcp: "0: 0100007F:70E4 0100007F:0016 01 ... inode"; addresses in hexadecimal.
static unsigned long read_table(const struct socket_end *e) {
  char line[512];
  unsigned long found = 0;
  FILE *f = fopen("/proc/net/tcp", "re");
  while (f && !found && fgets(line, sizeof line, f)) {
    unsigned local, remote;
    unsigned long inode;
    if (sscanf(line, " %*d: %*8x:%4x %*8x:%4x %*s %*s %*s %*s %*s %*s %lu", &local, &remote, &inode) != 3) continue;
    if ((int)local == e->local_port && (int)remote == e->remote_port) found = inode;
  }
  if (f) (void)fclose(f);
  return found;
}

// Looks at the open files of a process for the sockets that are still without an owner.
static void look_into(pid_t pid, int index, struct socket_end *ends, const unsigned long *inodes, size_t n) {
  char folder[64], path[330], target[64];
  (void)snprintf(folder, sizeof folder, "/proc/%d/fd", (int)pid);
  DIR *d = opendir(folder);
  struct dirent *e;
  while (d && (e = readdir(d))) {
    (void)snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
    ssize_t len = readlink(path, target, sizeof target - 1);
    if (len <= 8 || memcmp(target, "socket:[", 8) != 0) continue;
    target[len] = '\0';
    unsigned long inode = strtoul(target + 8, NULL, 10);
    for (size_t i = 0; i < n; i++)
      if (inodes[i] == inode) ends[i].owner = index;
  }
  if (d) (void)closedir(d);
}

void socket_owners(int diag, struct socket_end *ends, size_t n, const pid_t *pids, int n_pids) {
  unsigned long *inodes = calloc(n + 1, sizeof *inodes);
  for (size_t i = 0; i < n; i++) {
    ends[i].owner = -1;
    inodes[i] = diag >= 0 ? ask_diag(diag, &ends[i]) : read_table(&ends[i]);
    if (!inodes[i]) inodes[i] = (unsigned long)-1; // gone already
  }
  for (int p = 0; n && p < n_pids; p++)
    if (pids[p] > 0) look_into(pids[p], p, ends, inodes, n);
  free(inodes);
}
