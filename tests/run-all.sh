#!/usr/bin/env bash
# All tests: unit tests with sanitizers, integration tests on sanitized daemons, the acceptance scenarios on the release build.
# `make test` calls this. ACCEPTANCE: the folder with the scenarios (default: ../shared/acceptance; skipped with a line if absent).
set -euo pipefail
cd "$(dirname "$0")/.."
jobs=$(nproc)
started=$SECONDS
step() { echo; echo "== $* ($((SECONDS - started)) s)"; }

step "build"
make --no-print-directory -s -j"$jobs" all
step "build with ASan and UBSan"
make --no-print-directory -s -j"$jobs" SAN=1 BUILD=build-san all
step "unit tests"
make --no-print-directory -s -j"$jobs" -Otarget SAN=1 BUILD=build-san unit
step "integration tests"
make --no-print-directory -s -j"$jobs" -Otarget SAN=1 BUILD=build-san integration

step "chaos"
make --no-print-directory -s SAN=1 BUILD=build-san chaos SECONDS=60 SEED=1

node=$(tests/node.sh)
step "the README's walk-through"
"$node" tests/walkthrough/run.mjs

acceptance=${ACCEPTANCE:-../shared/acceptance}
if [[ -d $acceptance ]]; then
  for scenario in sharding-transcript versions bulk-round-trips secondary-metadata failover; do
    step "acceptance: $scenario"
    "$node" "$acceptance/$scenario.mjs" --bin=build --modules=tests
  done
else
  step "acceptance scenarios are not beside this checkout ($acceptance): not run"
fi
conformance=${CONFORMANCE:-../shared/conformance}
if [[ -d $conformance ]]; then
  step "the drivers' conformance data"
  tests/acceptance/conformance.sh "$conformance" build
else
  step "the drivers' conformance data is not beside this checkout ($conformance): not run"
fi

step "fuzz targets, for moments"
make --no-print-directory -s fuzz SECONDS=3
step "all tests passed"
