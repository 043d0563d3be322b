#!/usr/bin/env bash
# The drivers' cross-language test data against a local cluster: tests/acceptance/conformance.sh RUNNER BIN
#
# RUNNER: the folder with run.mjs and data/. BIN: the daemons. Failures that are listed in conformance-known.txt beside this
# script are features that are refused by name; any other failure, and a listed test that passes, fails the run.
set -euo pipefail
cd "$(dirname "$0")/../.."
runner=$(realpath "$1")
bin=$(realpath "$2")
work=$(mktemp -d "${TMPDIR:-/tmp}/shardlet-conformance.XXXXXX")
suites=crud,collection-management,command-logging-and-monitoring,gridfs,read-write-concern,retryable-reads,retryable-writes
suites+=,unified-test-format,versioned-api

free_ports() { # the first of eight neighbouring ports that nobody listens on
  local port i
  while port=$((30000 + RANDOM % 20000)); do
    for ((i = 0; i < 8; i++)); do
      if (exec 3<>"/dev/tcp/127.0.0.1/$((port + i))") 2>/dev/null; then continue 2; fi
    done
    echo "$port" && return
  done
}

end() {
  DATA=$work/data BIN=$bin deploy/local-cluster.sh stop >/dev/null || true
  rm -rf "$work"
}
trap end EXIT

port=$(free_ports)
PORT=$port DATA=$work/data BIN=$bin deploy/local-cluster.sh start >"$work/cluster.out" 2>&1 &
for ((i = 0; i < 300; i++)); do
  grep -q 'cluster is up' "$work/cluster.out" && break
  sleep 0.1
done
grep -q 'cluster is up' "$work/cluster.out" || { cat "$work/cluster.out" >&2 && exit 1; }

# The runner finds its modules beside itself, and its own folder may be read-only.
cp -r "$runner"/{run.mjs,lib,data,package.json,driver-deviations.json} "$work/"
ln -s "$PWD/tests/node_modules" "$work/node_modules"
"$(tests/node.sh)" "$work/run.mjs" --uri "mongodb://127.0.0.1:$port" --single-router --suite "$suites" \
  --known tests/acceptance/conformance-known.txt --timeout-ms 60000 >"$work/report" || { cat "$work/report" && exit 1; }
grep '^suite' "$work/report"
tail -n 1 "$work/report"
