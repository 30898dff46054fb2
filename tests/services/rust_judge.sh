#!/usr/bin/env bash
# The writer and judge of tests/rust, built once into the cache from its pinned sources. Prints the
# program's path.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/server.sh"

readonly SOURCE=$(cd "$(dirname "${BASH_SOURCE[0]}")/../rust" && pwd)
readonly CACHE=${LITHIFY_CACHE:-$HOME/.cache/lithify}/rust-judge
readonly BUILD_SECONDS=1800

# Another program for other sources.
version() {
  cat "$SOURCE"/Cargo.* "$SOURCE"/src/*.rs | sha256sum | cut -c1-12
}

# Cargo.lock.pinned is a Cargo.lock but for the lines that name the registry, which are cargo's own.
make_lock() {
  local registry
  cargo generate-lockfile --quiet --manifest-path "$CACHE/source/Cargo.toml" >&2 9>&- ||
    die "the registry cannot be read"
  registry=$(grep -m 1 '^source = ' "$CACHE/source/Cargo.lock")
  awk -v registry="$registry" '/^checksum = / { print registry } { print }' \
    "$SOURCE/Cargo.lock.pinned" >"$CACHE/source/Cargo.lock"
}

build() {
  command -v cargo >/dev/null || die "cargo with Rust 1.88 or newer is needed to build it"
  echo "rust_judge.sh: building, once; the first time takes some minutes" >&2
  rm -rf "$CACHE/source"
  cp -r "$SOURCE" "$CACHE/source"
  make_lock
  CARGO_TARGET_DIR=$CACHE/target nice -n 19 timeout "$BUILD_SECONDS" \
    cargo build --release --locked --quiet --manifest-path "$CACHE/source/Cargo.toml" >&2 9>&- ||
    die "the build failed"
  cp "$CACHE/target/release/rust_judge" "$program.new"
  mv -T "$program.new" "$program"
}

mkdir -p "$CACHE"
exec 9>"$CACHE/lock"
flock 9
program=$CACHE/rust_judge-$(version)
[[ -x $program ]] || build
echo "$program"
