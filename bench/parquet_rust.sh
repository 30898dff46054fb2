#!/usr/bin/env bash
# The tools of the Rust crate `parquet`, built once into the cache by cargo with the crate's own
# lock file; about ten minutes on two cores. Prints the directory that holds parquet-concat and
# parquet-rewrite.
#   LITHIFY_PARQUET_RUST=$(bash bench/parquet_rust.sh)
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../scripts/setup.sh"

readonly VERSION=60.1.0
readonly ROOT=$LITHIFY_CACHE/parquet-rust-$VERSION

build() {
  [ ! -x "$ROOT/bin/parquet-concat" ] || return 0
  command -v cargo >/dev/null || die "cargo with Rust 1.88 or newer is needed for $ROOT"
  say "building the tools of the Rust crate parquet $VERSION, once"
  rm -rf "$ROOT.new"
  CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16 CARGO_TARGET_DIR="$ROOT.target" CARGO_INCREMENTAL=0 \
    nice -n 19 cargo install "parquet@=$VERSION" --locked --quiet --features cli \
    --bin parquet-concat --bin parquet-rewrite --root "$ROOT.new" >&2 9>&-
  rm -rf "$ROOT.target"
  mv -T "$ROOT.new" "$ROOT"
}

# A lock of its own, so that nobody waits for a compiler who wants something else of the cache.
mkdir -p "$LITHIFY_CACHE"
(flock 9 && build) 9>"$LITHIFY_CACHE/parquet-rust.lock" >&2
echo "$ROOT/bin"
