#!/usr/bin/env bash
# A real OpenTelemetry Collector on loopback: OTLP over HTTP in, a JSON line per request out. Built
# once into the cache from the versions pinned in otel_collector/.
#
#   otel_collector.sh start DIR [PORT]  starts it and prints its endpoint; DIR/received.json gets
#                                       what comes in; PORT instead of a free one
#   otel_collector.sh stop DIR          stops it
#   otel_collector.sh fetch             only fills the cache
set -euo pipefail
readonly HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
source "$HERE/server.sh"
source "$HERE/go_program.sh"

program() {
  go_program otel_collector "$HERE/otel_collector" .
}

# Tries a port; fails if the server ends, as it does when the port is taken.
try() {
  local dir=$1 port=$2 program=$3
  cat >"$dir/config.yaml" <<EOF
receivers:
  otlp:
    protocols:
      http:
        endpoint: 127.0.0.1:$port
exporters:
  file:
    path: $dir/received.json
    flush_interval: 100ms
service:
  telemetry:
    metrics:
      level: none
  pipelines:
    metrics: {receivers: [otlp], exporters: [file]}
    traces: {receivers: [otlp], exporters: [file]}
    logs: {receivers: [otlp], exporters: [file]}
EOF
  "$program" --config "$dir/config.yaml" >"$dir/server.log" 2>&1 </dev/null &
  wait_for_answer "$dir" $! "http://127.0.0.1:$port/"
}

start() {
  local dir=$1 port=${2:-} program
  program=$(program)
  mkdir -p "$dir"
  if [[ -n $port ]]; then
    try "$dir" "$port" "$program"
  else
    start_on_a_port "$dir" 20000 12000 "$program"
  fi
  echo "http://127.0.0.1:$port"
}

case ${1:-} in
  start) start "${2:?directory}" "${3:-}" ;;
  stop) stop "${2:?directory}" ;;
  fetch) program >/dev/null ;;
  *) die "usage: otel_collector.sh start DIR [PORT] | stop DIR | fetch" ;;
esac
