#!/usr/bin/env bash
# The writer and reader of tests/go, built once into the cache from its pinned sources. Prints the
# program's path.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/server.sh"

readonly SOURCE=$(cd "$(dirname "${BASH_SOURCE[0]}")/../go" && pwd)
readonly CACHE=${LITHIFY_CACHE:-$HOME/.cache/lithify}/go-lake
readonly BUILD_SECONDS=1800

# Another program for other sources.
version() {
  cat "$SOURCE"/go.* "$SOURCE"/*.go | sha256sum | cut -c1-12
}

build() {
  local go
  go=$(command -v go || echo /usr/local/go/bin/go)
  [[ -x $go ]] || die "go 1.26 or newer is needed to build it"
  echo "go_lake.sh: building, once; the first time takes some minutes" >&2
  # -mod=readonly: go.mod and go.sum are what they are.
  (cd "$SOURCE" && GOTOOLCHAIN=local nice -n 19 timeout "$BUILD_SECONDS" \
    "$go" build -p 2 -mod=readonly -trimpath -buildvcs=false -o "$program.new" . >&2 9>&-) ||
    die "the build failed"
  mv -T "$program.new" "$program"
}

mkdir -p "$CACHE"
exec 9>"$CACHE/lock"
flock 9
program=$CACHE/go_lake-$(version)
[[ -x $program ]] || build
echo "$program"
