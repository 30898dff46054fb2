#!/usr/bin/env bash
# A real S3 server that does not keep its word: gofakes3 on loopback, with everything in memory. It
# honours conditions of a PUT, and completes a multipart upload over an object that is there,
# whatever the condition says. Built once into the cache from the versions pinned in gofakes3/.
#
#   gofakes3.sh start DIR      starts it and prints its endpoint; every key and secret is right, and
#                              the bucket `lake` is there
#   gofakes3.sh stop DIR       stops it
#   gofakes3.sh fetch          only fills the cache
set -euo pipefail
readonly HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
source "$HERE/server.sh"
source "$HERE/go_program.sh"

program() {
  go_program gofakes3 "$HERE/gofakes3" github.com/johannesboyne/gofakes3/cmd/gofakes3
}

# Tries a port; fails if the server ends, as it does when the port is taken.
try() {
  local dir=$1 port=$2 program=$3
  "$program" -host "127.0.0.1:$port" -backend memory -initialbucket lake -quiet \
    >"$dir/server.log" 2>&1 </dev/null &
  wait_for_answer "$dir" $! "http://127.0.0.1:$port/"
}

start() {
  local dir=$1 port program
  program=$(program)
  mkdir -p "$dir"
  start_on_a_port "$dir" 20000 12000 "$program"
  echo "http://127.0.0.1:$port"
}

case ${1:-} in
  start) start "${2:?directory}" ;;
  stop) stop "${2:?directory}" ;;
  fetch) program >/dev/null ;;
  *) die "usage: gofakes3.sh start DIR | stop DIR | fetch" ;;
esac
