#!/usr/bin/env bash
# ./dev build [TARGET…]: configures and compiles. LITHIFY_BUILD_DIR and LITHIFY_CMAKE_ARGS are for
# scripts/check.sh, which builds with sanitizers beside the normal build.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"
prepare_all

build_dir="${LITHIFY_BUILD_DIR:-$LITHIFY_ROOT/build}"
arrow="$LITHIFY_CACHE/pyarrow-$ARROW_VERSION"
duckdb="$LITHIFY_CACHE/duckdb-$DUCKDB_VERSION"
zstd="$LITHIFY_CACHE/zstd-$ZSTD_VERSION"
read -ra extra <<<"${LITHIFY_CMAKE_ARGS:-}"

configured="$build_dir/.configured-with"
wanted="$arrow $duckdb $zstd ${extra[*]:-}"
if [ ! -e "$build_dir/build.ninja" ] || [ "$(cat "$configured" 2>/dev/null)" != "$wanted" ]; then
  say "configuring $build_dir"
  cmake -S "$LITHIFY_ROOT" -B "$build_dir" -G Ninja -DCMAKE_BUILD_TYPE=RelWithDebInfo \
    -DARROW_WHEEL_ROOT="$arrow" -DDUCKDB_ROOT="$duckdb" -DZSTD_ROOT="$zstd" \
    -DCMAKE_C_COMPILER_LAUNCHER=ccache -DCMAKE_CXX_COMPILER_LAUNCHER=ccache \
    -DCMAKE_EXE_LINKER_FLAGS=-fuse-ld=mold -DCMAKE_SHARED_LINKER_FLAGS=-fuse-ld=mold \
    ${extra[@]+"${extra[@]}"} >&2
  printf '%s\n' "$wanted" >"$configured"
fi

SECONDS=0
ninja -C "$build_dir" "$@" >&2
say "built in ${SECONDS} s: ${build_dir#"$LITHIFY_ROOT"/}/bin"
