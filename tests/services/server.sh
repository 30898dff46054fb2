# What the scripts share that start a server for tests; sourced by them.

die() {
  echo "$(basename "$0"): $*" >&2
  exit 1
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
