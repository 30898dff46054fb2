# What the scripts share that start a server for tests; sourced by them.

die() {
  echo "$(basename "$0"): $*" >&2
  exit 1
}

# start_on_a_port DIR LOW SPAN ARGUMENT…: runs `try DIR PORT ARGUMENT…` on random ports of LOW to
# LOW + SPAN until one is free, and sets `port` to that one.
start_on_a_port() {
  local dir=$1 low=$2 span=$3
  shift 3
  for _ in $(seq 10); do
    port=$((low + RANDOM % span))
    if try "$dir" "$port" "$@"; then return; fi
    grep -q "in use" "$dir/server.log" || break
  done
  die "the server ended: $(tail -5 "$dir/server.log")"
}

# Ends the server whose process id is in DIR/pid; killed if it does not within five seconds.
stop() {
  local pid
  pid=$(<"$1/pid")
  rm -f "$1/pid" "$1/port"
  kill "$pid" 2>/dev/null || return 0
  for _ in $(seq 50); do
    kill -0 "$pid" 2>/dev/null || return 0
    sleep 0.1
  done
  kill -9 "$pid" 2>/dev/null || true
}

# An answer, whatever it is and whoever gives it, without credentials.
answers() {
  curl -s -k -o /dev/null --max-time 5 --noproxy '*' "$1"
}

# wait_for_answer DIR PID URL: until the server that was just started answers; its process id is
# then in DIR/pid. Fails if it ends first.
wait_for_answer() {
  local dir=$1 pid=$2 url=$3
  disown "$pid"
  for _ in $(seq 300); do
    sleep 0.1
    kill -0 "$pid" 2>/dev/null || return 1
    if answers "$url"; then
      # Not somebody else's answer, on whose port this one could not listen.
      sleep 0.1
      kill -0 "$pid" 2>/dev/null || return 1
      echo "$pid" >"$dir/pid"
      return
    fi
  done
  kill "$pid"
  die "the server was not ready within half a minute: $(tail -5 "$dir/server.log")"
}
