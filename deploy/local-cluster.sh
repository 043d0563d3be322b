#!/usr/bin/env bash
# A cluster on this machine: one config server, two shards, one router. Used by `make run` and `make stop`.
#
#   deploy/local-cluster.sh start   runs until Ctrl-C or `stop`
#   deploy/local-cluster.sh stop    ends every process of a running one, and says so
#
# Environment: PORT (of the router, 27017), DATA (./data), BIN (./build), SHARDS (2).
set -euo pipefail
cd "$(dirname "$0")/.."

port=${PORT:-27017}
data=${DATA:-data}
bin=$(realpath "${BIN:-build}")
shards=${SHARDS:-2}
host=127.0.0.1

names=() # what runs, in the order in which it was started
declare -A pids

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
    tr '\0' ' ' <"/proc/$pid/cmdline" 2>/dev/null | grep -q local-cluster
}

end_process() { # name pid
  is_ours "$2" || return 0
  kill -CONT "$2" 2>/dev/null || true
  kill -TERM "$2" 2>/dev/null || true
  for ((i = 0; i < 300; i++)); do
    is_ours "$2" || { echo "  $1 (pid $2) ended"; return 0; }
    sleep 0.1
  done
  kill -KILL "$2" 2>/dev/null || true
  echo "  $1 (pid $2) did not end within 30 s: killed"
}

stop_all() {
  trap - EXIT INT TERM
  echo "Stopping the cluster ..."
  for ((n = ${#names[@]} - 1; n >= 0; n--)); do
    # The pid file, not our own memory: somebody may have started the daemon again by hand.
    end_process "${names[n]}" "$(cat "$data/${names[n]}.pid" 2>/dev/null || true)"
    rm -f "$data/${names[n]}.pid"
  done
  rm -f "$data/cluster.pid"
  echo "Everything has ended. The data is kept in $data/."
}

start_daemon() { # name program port arguments...
  local name=$1 program=$2 its_port=$3
  shift 3
  "$bin/$program" --port "$its_port" --bind_ip $host --logpath "$data/$name.log" --logappend \
    --pidfilepath "$data/$name.pid" "$@" >"$data/$name.out" 2>&1 </dev/null &
  names+=("$name")
  pids[$name]=$!
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

start() {
  [[ -x "$bin/mongos" ]] || fail "$bin/mongos is missing: build first (make)"
  [[ "$port" =~ ^[0-9]+$ ]] && ((port >= 1 && port <= 65000)) || fail "PORT must be a number from 1 to 65000"
  [[ "$shards" =~ ^[0-9]{1,2}$ ]] && ((10#$shards >= 1)) || fail "SHARDS must be a number from 1 to 99"
  mkdir -p "$data" 2>/dev/null || fail "cannot make the folder $data: choose another with DATA=FOLDER"
  [[ -w "$data" ]] || fail "cannot write to $data: choose another folder with DATA=FOLDER"
  if is_running; then
    fail "a cluster runs on $data already (pid $(cat "$data/cluster.pid")): stop it with '$stop_command', or choose another folder with DATA=FOLDER and other ports with PORT=N"
  fi
  for ((n = 0; n < shards + 2; n++)); do
    if answers $((port + n)); then fail "port $((port + n)) is taken: choose others with PORT=N (uses N to N+$((shards + 1)))"; fi
  done
  trap 'stop_all; exit 0' INT TERM
  trap 'stop_all' EXIT
  echo $$ >"$data/cluster.pid"

  local cfg="$host:$((port + 1))" folders=("$data/cfg") add="" s
  for ((s = 1; s <= shards; s++)); do
    folders+=("$data/sh$s")
    add+="${add:+;}sh$s/$host:$((port + 1 + s))"
  done
  mkdir -p "${folders[@]}"
  # All at once: the router listens only after it has found the config server and added the shards.
  start_daemon cfg configsvr $((port + 1)) --replSet cfg --dbpath "$data/cfg" --initiate "$cfg"
  for ((s = 1; s <= shards; s++)); do
    start_daemon "sh$s" shardd $((port + 1 + s)) --replSet "sh$s" --dbpath "$data/sh$s" --initiate "$host:$((port + 1 + s))"
  done
  start_daemon mongos mongos "$port" --configdb "cfg/$cfg" --addShards "$add"
  wait_for_port cfg $((port + 1))
  for ((s = 1; s <= shards; s++)); do wait_for_port "sh$s" $((port + 1 + s)); done
  wait_for_port mongos "$port"

  cat <<TEXT

The cluster is up:  mongodb://$host:$port/

  mongos   router         $host:$port    $data/mongos.log
  cfg      config server  $cfg    $data/cfg.log
TEXT
  for ((s = 1; s <= shards; s++)); do echo "  sh$s      shard          $host:$((port + 1 + s))    $data/sh$s.log"; done
  cat <<TEXT

  mongosh mongodb://$host:$port/      connect
  Ctrl-C here, or '$stop_command'         end everything; the data stays in $data/

TEXT
  # A daemon that ends by itself is reported; the others go on, so that failures can be watched.
  local name
  while true; do
    for name in "${names[@]}"; do
      [[ -n "${pids[$name]}" ]] || continue
      if ! kill -0 "${pids[$name]}" 2>/dev/null; then
        echo "$name (pid ${pids[$name]}) has ended; see $data/$name.log. Start it again with:"
        echo "  $(restart_command "$name")"
        pids[$name]=""
      fi
    done
    sleep 0.5
  done
}

restart_command() { # name
  local common="--logpath $data/$1.log --logappend --pidfilepath $data/$1.pid"
  case $1 in
    mongos) echo "$bin/mongos --configdb cfg/$host:$((port + 1)) --port $port $common" ;;
    cfg) echo "$bin/configsvr --replSet cfg --dbpath $data/cfg --port $((port + 1)) $common" ;;
    *) echo "$bin/shardd --replSet $1 --dbpath $data/$1 --port $((port + 1 + ${1#sh})) $common" ;;
  esac
}

stop() {
  local pid
  if is_running; then
    pid=$(cat "$data/cluster.pid")
    kill -TERM "$pid"
    for ((i = 0; i < 1200; i++)); do
      kill -0 "$pid" 2>/dev/null || { echo "The cluster on $data has ended."; return; }
      sleep 0.1
    done
    fail "the cluster on $data (pid $pid) does not end"
  fi
  # The script is gone (its terminal was closed hard): end what its pid files name.
  local found=no file
  for file in "$data"/*.pid; do
    [[ -e "$file" && "$file" != */cluster.pid ]] || continue
    is_ours "$(cat "$file")" && found=yes
    end_process "$(basename "$file" .pid)" "$(cat "$file")"
    rm -f "$file"
  done
  rm -f "$data/cluster.pid"
  if [[ $found == yes ]]; then echo "The cluster on $data has ended."; else echo "No cluster runs on $data."; fi
}

case ${1:-} in
  start) start ;;
  stop) stop ;;
  *) sed -n '2,7p' "$0"; exit 2 ;;
esac
