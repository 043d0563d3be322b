#!/usr/bin/env bash
# clang-tidy over every source file, with the flags it is built with.
set -euo pipefail
cd "$(dirname "$0")/.."
packages=(libbson-1.0 libuv sqlite3 raft libpcre2-8 libcrypto zlib libzstd yaml-0.1 libmongoc-1.0)
read -ra includes <<<"$(pkg-config --cflags "${packages[@]}" | sed 's/-I/-isystem /g')"
git ls-files 'common/*.c' 'proto/*.c' 'mongos/*.c' 'configsvr/*.c' 'shardd/*.c' |
  xargs -P "$(nproc)" -n 4 clang-tidy --quiet -- 2>/dev/null -std=gnu17 -D_GNU_SOURCE -I. "${includes[@]}"
