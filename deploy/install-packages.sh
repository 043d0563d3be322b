#!/usr/bin/env bash
# Installs the Debian packages that building (and, with --tests, testing) needs. Does nothing when all are there.
# Works as root, or through sudo. On Debian 12 libraft comes from the backports of the machine's own Debian mirror.
set -euo pipefail

build=(gcc make pkg-config libbson-dev libuv1-dev libsqlite3-dev libraft-dev libpcre2-dev libssl-dev zlib1g-dev
  libsnappy-dev libzstd-dev libyaml-dev libgmp-dev uthash-dev)
tests=(libcmocka-dev libmongoc-dev clang clang-format clang-tidy libclang-rt-dev sqlite3 nodejs)

wanted=("${build[@]}")
[[ "${1:-}" == --tests ]] && wanted+=("${tests[@]}")

missing=()
for package in "${wanted[@]}"; do
  [[ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null)" == installed ]] || missing+=("$package")
done
raft_version=$(dpkg-query -W -f '${Version}' libraft-dev 2>/dev/null || true)
raft_ok=no
[[ -n "$raft_version" ]] && dpkg --compare-versions "$raft_version" ge 0.22 && raft_ok=yes
if [[ ${#missing[@]} -eq 0 && $raft_ok == yes ]]; then exit 0; fi

as_root=()
if [[ $EUID -ne 0 ]]; then
  command -v sudo >/dev/null || { echo "These packages are missing: ${missing[*]}. Run this as root, or install sudo." >&2; exit 1; }
  as_root=(sudo)
fi

# Says nothing unless it fails. (Use-Pty: a container without /dev/pts is no reason to complain.)
log=$(mktemp)
trap 'rm -f "$log"' EXIT
apt() {
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q -y -o Dpkg::Use-Pty=0 -o DPkg::Lock::Timeout=600 "$@" >"$log" 2>&1 && return
  cat "$log" >&2
  echo "apt-get $1 failed (see above): the packages that are needed could not be installed." >&2
  exit 1
}

# The mirror that serves this machine's Debian, in either of the two forms of sources.
backports_line() {
  . /etc/os-release
  local line uri
  for file in /etc/apt/sources.list.d/*.sources; do
    [[ -e "$file" ]] || continue
    uri=$(awk -v suite="$VERSION_CODENAME" 'BEGIN { RS = ""; FS = "\n" }
      { uri = ""; ours = 0
        for (i = 1; i <= NF; i++) {
          if ($i ~ /^URIs:/) { split($i, w, /[ \t]+/); uri = w[2] }
          if ($i ~ "^Suites:.*[ \t]" suite "([ \t]|$)") ours = 1 }
        if (ours && uri != "") { print uri; exit } }' "$file")
    [[ -n "$uri" ]] && { echo "deb $uri $VERSION_CODENAME-backports main"; return; }
  done
  line=$(grep -hsE "^deb .* $VERSION_CODENAME (.* )?main" /etc/apt/sources.list /etc/apt/sources.list.d/*.list | head -n 1 || true)
  [[ -n "$line" ]] && sed -E "s/ $VERSION_CODENAME .*/ $VERSION_CODENAME-backports main/" <<<"$line"
}

echo "Installing Debian packages: ${missing[*]:-libraft-dev} ..."
apt update
if [[ $raft_ok == no ]]; then
  candidate=$(apt-cache policy libraft-dev | awk '/Candidate:/ { print $2 }')
  if [[ -z "$candidate" || "$candidate" == "(none)" ]] || dpkg --compare-versions "$candidate" lt 0.22; then
    source_line=$(backports_line || true)
    [[ -n "$source_line" ]] || { echo "libraft 0.22 is needed, and no Debian source was found to take its backports from." >&2; exit 1; }
    echo "$source_line" | "${as_root[@]}" tee /etc/apt/sources.list.d/shardlet-backports.list >/dev/null
    apt update
    . /etc/os-release
    apt install -t "$VERSION_CODENAME-backports" libraft-dev
  fi
fi
apt install --no-install-recommends "${wanted[@]}"
