#!/usr/bin/env bash
# A cluster on this machine: config servers, shards, one router. Used by `make run` and `make stop`.
#
#   deploy/local-cluster.sh start   runs until Ctrl-C or `stop`
#   deploy/local-cluster.sh stop    ends every process of a running one, and says so
#   deploy/local-cluster.sh revive  starts those daemons of a running one again that have ended
#
# Environment: PORT (of the router, 27017), DATA (./data), BIN (./build), SHARDS (2), MEMBERS (of the config set and of each
# shard, 1 to 7; 1). The other daemons take the ports after PORT: config servers, then shard after shard.
set -euo pipefail
cd "$(dirname "$0")/.."

port=${PORT:-27017}
data=${DATA:-data}
bin=$(realpath "${BIN:-build}")
shards=${SHARDS:-2}
members=${MEMBERS:-1}
host=127.0.0.1

names=() # what runs, in the order in which it was started
declare -A pids ports

fail() { echo "$*" >&2; exit 1; }

stop_command="make stop$([[ "$data" == data ]] || printf ' DATA=%q' "$data")"

# Whether the process in a pid file is really one of ours: pids are used again.
is_ours() { # pid
  [[ -n "$1" && "$(readlink "/proc/$1/exe" 2>/dev/null)" =~ /(mongos|configsvr|shardd)( \(deleted\))?$ ]]
}

# Whether this script still runs a cluster in the data folder.
is_running() {
  local pid
  pid=$(cat "$data/cluster.pid" 2>/dev/null) && [[ -n "$pid" ]] &&
    { tr '\0' ' ' <"/proc/$pid/cmdline" | grep -q local-cluster; } 2>/dev/null
}

ask_to_end() { # pid
  is_ours "$1" || return 0
  kill -CONT "$1" 2>/dev/null || true
  kill -TERM "$1" 2>/dev/null || true
}

await_end() { # name pid
  [[ -n "$2" ]] || return 0
  for ((i = 0; i < 300; i++)); do
    is_ours "$2" || { echo "  $1 (pid $2) ended"; return 0; }
    sleep 0.1
  done
  kill -KILL "$2" 2>/dev/null || true
  echo "  $1 (pid $2) did not end within 30 s: killed"
}

# The pid file, not our own memory: somebody may have started the daemon again by hand.
pid_of() { # name
  local pid
  pid=$(cat "$data/$1.pid" 2>/dev/null || true)
  if is_ours "$pid"; then echo "$pid"; fi
}

# The router first, then all others at once.
end_daemons() { # names...
  local name pid
  declare -A ending
  for name in "$@"; do ending[$name]=$(pid_of "$name"); done
  pid=${ending[mongos]:-}
  [[ -z "$pid" ]] || { ask_to_end "$pid"; await_end mongos "$pid"; }
  for name in "$@"; do [[ $name == mongos ]] || ask_to_end "${ending[$name]}"; done
  for name in "$@"; do
    [[ $name == mongos ]] || await_end "$name" "${ending[$name]}"
    rm -f "$data/$name.pid"
  done
}

# Ends them whether or not anybody reads what is said: who did may have ended by the same Ctrl-C (make run | tee log).
stop_all() {
  trap - EXIT
  trap '' INT TERM HUP PIPE
  set +e
  {
    echo "Stopping the cluster ..."
    end_daemons "${names[@]}"
    rm -f "$data/cluster.pid"
    echo "Everything has ended. The data is kept in $data/."
  } 2>/dev/null
}

start_daemon() { # name program port arguments...
  local name=$1 program=$2 its_port=$3
  shift 3
  local command=("$bin/$program" --port "$its_port" --bind_ip "$host" --logpath "$data/$name.log" --logappend
    --pidfilepath "$data/$name.pid" "$@")
  printf '%q ' "${command[@]}" >"$data/$name.command"
  setsid "${command[@]}" >"$data/$name.out" 2>&1 </dev/null & # Ctrl-C is for this script, which ends them in their order
  names+=("$name")
  pids[$name]=$!
  disown # what is said when it ends is said below
  ports[$name]=$its_port
}

# Without a process of its own: start-up asks often.
answers() { # port
  { : <>"/dev/tcp/$host/$1"; } 2>/dev/null
}

wait_for_port() { # name port
  for ((i = 0; i < 1500; i++)); do
    if answers "$2"; then return 0; fi
    kill -0 "${pids[$1]}" 2>/dev/null || { cat "$data/$1.out" >&2; fail "$1 did not start; see $data/$1.log"; }
    sleep 0.02
  done
  fail "$1 does not listen on port $2 after 30 s; see $data/$1.log"
}

# "cfg" or "cfg-2": a member's name, which is its folder's as well.
member_name() { # set number
  if ((members == 1)); then echo "$1"; else echo "$1-$2"; fi
}

# The hosts of a set whose first member has the given port.
hosts_of() { # port
  local list="" m
  for ((m = 0; m < members; m++)); do list+="${list:+,}$host:$(($1 + m))"; done
  echo "$list"
}

start_set() { # set program port
  local m name hosts
  hosts=$(hosts_of "$3")
  for ((m = 1; m <= members; m++)); do
    name=$(member_name "$1" "$m")
    mkdir -p "$data/$name"
    start_daemon "$name" "$2" $(($3 + m - 1)) --replSet "$1" --dbpath "$data/$name" --initiate "$hosts"
  done
}

# The members of a set know each other by their ports, and the cluster its shards: another number of either needs another folder.
check_shape() {
  local shape="PORT=$port MEMBERS=$members" file="$data/cluster.shape" old
  if [[ -e "$file" ]]; then
    read -r old <"$file"
    [[ "${old% SHARDS=*}" == "$shape" ]] && ((shards >= ${old##*SHARDS=})) ||
      fail "$data/ keeps a cluster that was made with $old, which cannot be changed (but for more SHARDS): go on with these, or choose another folder with DATA=FOLDER"
  elif [[ -d "$data/cfg" ]] && ((members != 1)); then
    fail "$data/ keeps a cluster of MEMBERS=1: go on with that, or choose another folder with DATA=FOLDER"
  fi
  echo "$shape SHARDS=$shards" >"$file"
}

check_settings() {
  [[ -x "$bin/mongos" ]] || fail "$bin/mongos is missing: build first (make)"
  [[ "$port" =~ ^[0-9]{1,5}$ ]] && ((10#$port >= 1 && 10#$port <= 65000)) || fail "PORT must be a number from 1 to 65000"
  [[ "$shards" =~ ^[0-9]{1,2}$ ]] && ((10#$shards >= 1)) || fail "SHARDS must be a number from 1 to 99"
  [[ "$members" =~ ^[1-7]$ ]] || fail "MEMBERS must be a number from 1 to 7"
  port=$((10#$port)) shards=$((10#$shards))
  mkdir -p "$data" 2>/dev/null || fail "cannot make the folder $data: choose another with DATA=FOLDER"
  [[ -w "$data" ]] || fail "cannot write to $data: choose another folder with DATA=FOLDER"
  if is_running; then
    fail "a cluster runs on $data already (pid $(cat "$data/cluster.pid")): stop it with '$stop_command', or choose another folder with DATA=FOLDER and other ports with PORT=N"
  fi
  local n last=$(((shards + 1) * members))
  for ((n = 0; n <= last; n++)); do
    if answers $((port + n)); then fail "port $((port + n)) is taken: choose others with PORT=N (uses N to N+$last)"; fi
  done
}

describe() {
  local name kind
  local revive_command=${stop_command/stop/revive}
  printf '\nThe cluster is up:  mongodb://%s:%s/\n\n' $host "$port"
  for name in mongos "${names[@]}"; do
    case $name in
      mongos) kind="router" ;;
      cfg*) kind="config server" ;;
      *) kind="shard" ;;
    esac
    printf '  %-8s %-14s %s    %s\n' "$name" "$kind" "$host:${ports[$name]}" "$data/$name.log"
  done | awk '!seen[$0]++'
  echo
  printf '  %-32s %s\n' "mongosh mongodb://$host:$port/" "connect" \
    "Ctrl-C here, or '$stop_command'" "end everything; the data stays in $data/" \
    "$revive_command" "start again what was killed"
  echo
}

start() {
  check_settings
  check_shape
  trap 'stop_all; exit 0' INT TERM HUP
  trap 'stop_all' EXIT
  echo $$ >"$data/cluster.pid"

  # All at once: the router listens only after it has found the config servers and added the shards.
  local add="" s first
  start_set cfg configsvr $((port + 1))
  for ((s = 1; s <= shards; s++)); do
    first=$((port + 1 + s * members))
    start_set "sh$s" shardd $first
    add+="${add:+;}sh$s/$(hosts_of $first)"
  done
  start_daemon mongos mongos "$port" --configdb "cfg/$(hosts_of $((port + 1)))" --addShards "$add"
  local name
  for name in "${names[@]}"; do wait_for_port "$name" "${ports[$name]}"; done
  describe

  # A daemon that ends by itself is reported; the others go on, so that failures can be watched.
  while true; do
    for name in "${names[@]}"; do
      [[ -n "${pids[$name]}" ]] || pids[$name]=$(pid_of "$name") # somebody started it again
      [[ -n "${pids[$name]}" ]] || continue
      if ! kill -0 "${pids[$name]}" 2>/dev/null; then
        echo "$name (pid ${pids[$name]}) has ended; see $data/$name.log. '${stop_command/stop/revive}' starts it again."
        pids[$name]=""
      fi
    done
    sleep 0.5
  done
}

stop() {
  local pid
  if is_running; then
    pid=$(cat "$data/cluster.pid")
    kill -TERM "$pid"
    for ((i = 0; i < 1200; i++)); do
      is_running || { echo "The cluster on $data has ended."; return; } # also when nobody has waited for the script yet
      sleep 0.1
    done
    fail "the cluster on $data (pid $pid) does not end"
  fi
  # The script is gone (its terminal was closed hard): end what its pid files name.
  local left=() file name
  for file in "$data"/*.pid; do
    name=$(basename "$file" .pid)
    [[ -e "$file" && $name != cluster ]] || continue
    if [[ -n "$(pid_of "$name")" ]]; then left+=("$name"); else rm -f "$file"; fi
  done
  rm -f "$data/cluster.pid"
  ((${#left[@]})) || { echo "No cluster runs on $data."; return; }
  end_daemons "${left[@]}"
  echo "The cluster on $data has ended."
}

revive() {
  is_running || fail "no cluster runs on $data: start one with 'make run'"
  local file name all=yes
  for file in "$data"/*.command; do
    name=$(basename "$file" .command)
    [[ -z "$(pid_of "$name")" ]] || continue
    all=no
    bash -c "exec $(cat "$file") --fork" >"$data/$name.out" 2>&1 || { cat "$data/$name.out" >&2; fail "$name did not start; see $data/$name.log"; }
    echo "$name runs again (pid $(pid_of "$name"))"
  done
  if [[ $all == yes ]]; then echo "Everything runs."; fi
}

case ${1:-} in
  start) start ;;
  stop) stop ;;
  revive) revive ;;
  *) sed -n '2,9p' "$0"; exit 2 ;;
esac
