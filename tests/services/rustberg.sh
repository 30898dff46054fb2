#!/usr/bin/env bash
# A real REST catalog with grants, for tests: rustberg on loopback, which asks Cedar policies about
# every request, with its own file as the catalog and local files in DIR. Built once from its pinned
# source into the cache; that takes a while.
#
#   rustberg.sh start DIR CONFIG [WAREHOUSE]
#                                  starts it (empty DIR: an empty catalog) and prints its URI;
#                                  CONFIG is its TOML with keys and policies, without addresses;
#                                  WAREHOUSE, like s3://bucket/lake, with AWS_… in the environment,
#                                  is where tables are instead of DIR
#   rustberg.sh stop DIR           stops it
#   rustberg.sh fetch              only fills the cache
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/server.sh"

readonly VERSION=0.3.0
readonly CACHE=${LITHIFY_CACHE:-$HOME/.cache/lithify}
readonly ROOT=$CACHE/rustberg-$VERSION

fetch() {
  mkdir -p "$CACHE"
  exec 9>"$CACHE/rustberg.lock"
  flock 9
  if [[ ! -x $ROOT/bin/rustberg ]]; then
    command -v cargo >/dev/null || die "cargo with Rust 1.94.1 or newer is needed to build it"
    echo "rustberg.sh: building rustberg $VERSION, once" >&2
    rm -rf "$ROOT.new"
    CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16 \
      nice cargo install "rustberg@=$VERSION" --locked --quiet --no-default-features \
      --features cli,storage-s3 --root "$ROOT.new" >&2 9>&- || die "the build failed"
    mv -T "$ROOT.new" "$ROOT"
  fi
  exec 9>&-
}

# Tries a port; fails if the server ends, as it does when the port is taken.
try() {
  local dir=$1 port=$2 config=$3 warehouse=$4 pid
  "$ROOT/bin/rustberg" --config "$config" --host 127.0.0.1 --port "$port" --insecure-http \
    --catalog-url "file://$dir/catalog" --warehouse "$warehouse" --log-level warn \
    >"$dir/server.log" 2>&1 </dev/null &
  pid=$!
  disown "$pid"
  for _ in $(seq 300); do
    sleep 0.1
    kill -0 "$pid" 2>/dev/null || return 1
    if "$ROOT/bin/rustberg" healthcheck --url "http://127.0.0.1:$port/ready" >/dev/null 2>&1; then
      kill -0 "$pid" 2>/dev/null || return 1
      echo "$pid" >"$dir/pid"
      return
    fi
  done
  kill "$pid"
  die "the server was not ready within half a minute"
}

start() {
  local dir=$1 config=$2 warehouse=${3:-file://$1/warehouse} port
  fetch
  mkdir -p "$dir/catalog" "$dir/warehouse"
  start_on_a_port "$dir" 20000 12000 "$config" "$warehouse"
  echo "http://127.0.0.1:$port"
}

case ${1:-} in
  start) start "${2:?directory}" "${3:?configuration}" "${4:-}" ;;
  stop) stop "${2:?directory}" ;;
  fetch) fetch ;;
  *) die "usage: rustberg.sh start DIR CONFIG [WAREHOUSE] | stop DIR | fetch" ;;
esac
