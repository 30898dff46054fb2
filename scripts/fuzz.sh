#!/usr/bin/env bash
# fuzz.sh [TARGET…]: builds the fuzz targets (fuzz/) with clang and runs each for
# LITHIFY_FUZZ_SECONDS, 60 unless told, from the seeds and what earlier runs found. A finding makes
# the script fail and is kept below build-fuzz/findings/; once understood it goes, made small with
# -minimize_crash=1, to fuzz/regressions/<target>/, where ./dev test replays it.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"
prepare_all

readonly CLANG_APT=(clang-19 libclang-rt-19-dev llvm-19)
readonly SECONDS_EACH="${LITHIFY_FUZZ_SECONDS:-60}"

build_dir="$LITHIFY_ROOT/build-fuzz"
corpus="$LITHIFY_ROOT/build/fuzz/corpus"
findings="$build_dir/findings"

# Debian 12's newest: the first ones whose libFuzzer and C++23 go with its libstdc++.
ensure_clang() {
  command -v clang++-19 >/dev/null && command -v llvm-symbolizer-19 >/dev/null &&
    [ -e /usr/lib/llvm-19/lib/clang/19/lib/linux ] && return
  [ "$(id -u)" -eq 0 ] || die "fuzzing needs these packages: apt-get install ${CLANG_APT[*]}"
  say "installing with apt: ${CLANG_APT[*]}"
  apt-get update -q >&2
  DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends \
    "${CLANG_APT[@]}" >&2
}

# The wheel's code is not instrumented: its containers carry no marks, and ownership passes through
# its allocators. Its memory pool is malloc, so that our reading beyond a buffer of it is seen.
run_target() {
  local target="$1"
  mkdir -p "$corpus/$target" "$findings/$target"
  ASAN_OPTIONS="detect_container_overflow=0:alloc_dealloc_mismatch=0:detect_leaks=1" \
    LSAN_OPTIONS="suppressions=$LITHIFY_ROOT/scripts/lsan_suppressions.txt" \
    UBSAN_OPTIONS="print_stacktrace=1" ASAN_SYMBOLIZER_PATH="$(command -v llvm-symbolizer-19)" \
    ARROW_DEFAULT_MEMORY_POOL=system \
    "$build_dir/fuzz/$target" -max_total_time="$SECONDS_EACH" -rss_limit_mb=2048 \
    -malloc_limit_mb=512 -timeout=10 -max_len=65536 -print_final_stats=1 \
    -artifact_prefix="$findings/$target/" "$corpus/$target" \
    "$LITHIFY_ROOT/fuzz/regressions/$target" >"$build_dir/$target.log" 2>&1
}

ensure_clang
options="-DCMAKE_CXX_COMPILER=clang++-19 -DLITHIFY_FUZZ=ON -DLITHIFY_TESTS=OFF"
LITHIFY_BUILD_DIR="$build_dir" \
  LITHIFY_CMAKE_ARGS="$options -DLITHIFY_SANITIZE=address,undefined" \
  bash "$LITHIFY_ROOT/scripts/build.sh" fuzz_targets
"$LITHIFY_PYTHON" "$LITHIFY_ROOT/fuzz/corpus.py" "$corpus"

targets=("$@")
[ $# -gt 0 ] || for program in "$build_dir"/fuzz/*_fuzz; do targets+=("${program##*/}"); done
failed=0
for target in "${targets[@]}"; do
  if run_target "$target"; then
    runs="$(sed -n 's/^stat::number_of_executed_units: *//p' "$build_dir/$target.log")"
    say "$target: $runs inputs"
  else
    failed=1
    say "$target: a finding"
    grep -v '^#' "$build_dir/$target.log" | tail -n 60
  fi
done
exit $failed
