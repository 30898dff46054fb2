#!/usr/bin/env bash
# Faults between a client and an S3 server: s3_fault_proxy.py as a process.
#
#   s3_faults.sh start DIR UPSTREAM SEED PLAN [OPTION…]   starts it and prints its endpoint
#   s3_faults.sh stop DIR                                 stops it and prints what it did, as JSON
set -euo pipefail
readonly HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
source "$HERE/server.sh"

start() {
  local dir=$1 upstream=$2 seed=$3 plan=$4 pid
  shift 4
  mkdir -p "$dir"
  "${LITHIFY_PYTHON:-python3}" "$HERE/s3_fault_proxy.py" --upstream "$upstream" --seed "$seed" \
    --plan "$plan" "$@" >"$dir/out" 2>"$dir/server.log" </dev/null &
  pid=$!
  disown "$pid"
  for _ in $(seq 100); do
    sleep 0.1
    kill -0 "$pid" 2>/dev/null || die "the proxy ended: $(tail -5 "$dir/server.log")"
    if [[ -s $dir/out ]]; then
      echo "$pid" >"$dir/pid"
      head -1 "$dir/out"
      return
    fi
  done
  kill "$pid"
  die "the proxy was not ready within ten seconds"
}

case ${1:-} in
  start) start "${2:?directory}" "${3:?upstream}" "${4:?seed}" "${5?plan}" "${@:6}" ;;
  stop)
    stop "${2:?directory}"
    sed -n 2p "$2/out"
    ;;
  *) die "usage: s3_faults.sh start DIR UPSTREAM SEED PLAN [OPTION…] | stop DIR" ;;
esac
