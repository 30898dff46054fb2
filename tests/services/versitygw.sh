#!/usr/bin/env bash
# A second real S3 server for tests: versitygw on loopback, which keeps objects as files in DIR.
# Built once into the cache from the versions pinned in versitygw/; that takes some minutes.
#
#   versitygw.sh start DIR [DATA [OPTION…]]
#                              starts it and prints its endpoint; the key is `lithify`, the secret
#                              `not a secret`, and the bucket `lake` is there; or else buckets are
#                              the directories in DATA. OPTIONs are the server's
#   versitygw.sh stop DIR      stops it
#   versitygw.sh fetch         only fills the cache
#
# Where it is not like the others: no key lies below another, as they are files and directories.
set -euo pipefail
readonly HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
source "$HERE/server.sh"
source "$HERE/go_program.sh"

program() {
  go_program versitygw "$HERE/versitygw" github.com/versity/versitygw/cmd/versitygw
}

# Tries a port; fails if the server ends, as it does when the port is taken.
try() {
  local dir=$1 port=$2 program=$3 data=$4 scheme=http
  shift 4
  if [[ " $* " == *" --cert "* ]]; then scheme=https; fi
  # Not with `--sidecar`: then ETag and bytes of one answer may be those of different writes.
  ROOT_ACCESS_KEY=lithify ROOT_SECRET_KEY='not a secret' \
    "$program" --port "127.0.0.1:$port" --quiet "$@" posix "$data" \
    >"$dir/server.log" 2>&1 </dev/null &
  wait_for_answer "$dir" $! "$scheme://127.0.0.1:$port/"
  endpoint=$scheme://127.0.0.1:$port
}

start() {
  local dir=$1 data=$2 port program endpoint
  shift 2
  program=$(program)
  if [[ -z $data ]]; then
    data=$dir/data
    mkdir -p "$data/lake"
  fi
  start_on_a_port "$dir" 20000 12000 "$program" "$data" "$@"
  echo "$endpoint"
}

case ${1:-} in
  start) start "${2:?directory}" "${3:-}" "${@:4}" ;;
  stop) stop "${2:?directory}" ;;
  fetch) program >/dev/null ;;
  *) die "usage: versitygw.sh start DIR [DATA [OPTION…]] | stop DIR | fetch" ;;
esac
