#!/usr/bin/env bash
# clang-tidy over every source file, with the flags it is built with. CHECKS: other checks, for example the slow analyzer:
#   CHECKS='-*,clang-analyzer-*' tests/tidy.sh
set -euo pipefail
cd "$(dirname "$0")/.."
packages=(libbson-1.0 libuv sqlite3 raft libpcre2-8 libcrypto zlib libzstd yaml-0.1 libmongoc-1.0)
FLAGS="-std=gnu17 -D_GNU_SOURCE -I. $(pkg-config --cflags "${packages[@]}" | sed 's/-I/-isystem /g')"
export FLAGS
git ls-files 'common/*.c' 'proto/*.c' 'mongos/*.c' 'configsvr/*.c' 'shardd/*.c' |
  xargs -P "$(nproc)" -n 4 sh -c 'clang-tidy --quiet ${CHECKS:+--checks="$CHECKS"} "$@" -- $FLAGS 2>/dev/null' tidy
