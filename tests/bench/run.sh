#!/usr/bin/env bash
# `make bench`: starts a cluster of its own, measures, ends it. BIN: where the daemons are (build). ROWS: which rows, for
# example ROWS="reads inserts"; the names are in bench.c.
set -euo pipefail
cd "$(dirname "$0")/../.."
bin=${BIN:-build}
make --no-print-directory -s BUILD="$bin" "$bin/bench/bench"

folder=$(mktemp -d)
port=$((20000 + RANDOM % 6000))
cleanup() {
  DATA="$folder/data" deploy/local-cluster.sh stop >/dev/null || true
  rm -rf "$folder"
}
trap cleanup EXIT

begun=$(date +%s%N)
BIN=$bin PORT=$port DATA=$folder/data deploy/local-cluster.sh start >"$folder/cluster.out" 2>&1 &
for ((i = 0; i < 2000; i++)); do
  grep -q 'The cluster is up' "$folder/cluster.out" && break
  sleep 0.01
done
grep -q 'The cluster is up' "$folder/cluster.out" || { cat "$folder/cluster.out"; exit 1; }
startup=$((($(date +%s%N) - begun) / 1000000))
sleep 3 # idle
rss=0
for name in mongos cfg sh1 sh2; do
  rss=$((rss + $(awk '/^VmRSS/ { print $2 }' "/proc/$(cat "$folder/data/$name.pid")/status")))
done
"$bin/bench/bench" "$port" $((port + 2)) "$folder" "$startup" "$rss" ${ROWS:-}
