// The owner of a socket. See proxy_source.h.
#include "tests/chaos/proxy_source.h"

#include <dirent.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// A line of /proc/net/tcp: "0: 0100007F:70E4 0100007F:0016 01 ... inode"; addresses in hexadecimal.
static unsigned long inode_of(int local_port, int remote_port) {
  char line[512];
  unsigned long found = 0;
  FILE *f = fopen("/proc/net/tcp", "re");
  while (f && !found && fgets(line, sizeof line, f)) {
    unsigned local, remote;
    unsigned long inode;
    if (sscanf(line, " %*d: %*8x:%4x %*8x:%4x %*s %*s %*s %*s %*s %*s %lu", &local, &remote, &inode) != 3) continue;
    if ((int)local == local_port && (int)remote == remote_port) found = inode;
  }
  if (f) (void)fclose(f);
  return found;
}

static bool has_socket(pid_t pid, unsigned long inode) {
  char folder[64], path[330], wanted[64], target[64];
  (void)snprintf(folder, sizeof folder, "/proc/%d/fd", (int)pid);
  (void)snprintf(wanted, sizeof wanted, "socket:[%lu]", inode);
  DIR *d = opendir(folder);
  bool found = false;
  struct dirent *e;
  while (d && !found && (e = readdir(d))) {
    (void)snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
    ssize_t n = readlink(path, target, sizeof target - 1);
    if (n <= 0) continue;
    target[n] = '\0';
    found = !strcmp(target, wanted);
  }
  if (d) (void)closedir(d);
  return found;
}

int socket_owner(int local_port, int remote_port, const pid_t *pids, int n) {
  unsigned long inode = inode_of(local_port, remote_port);
  for (int i = 0; inode && i < n; i++)
    if (pids[i] > 0 && has_socket(pids[i], inode)) return i;
  return -1;
}
