#!/usr/bin/env bash
# ./dev check [--fast] [STEP…]: everything that must hold before a change lands. Each step counts
# as one check; the last line is `N passed, N failed`. Steps by name: format style semconv
# dependencies tidy sanitizers fuzz simulation crash writers page services spark ray deploy.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"
prepare_all
with_cache_lock prepare_check_tools
cd "$LITHIFY_ROOT"
tools="$LITHIFY_CACHE/check-tools/bin"

ours() { git ls-files --cached --others --exclude-standard -- "$@"; }

check_format() {
  ours '*.h' '*.cc' | xargs -r "$tools/clang-format" --dry-run --Werror
}

check_style() {
  "$LITHIFY_PYTHON" scripts/tidy.py .
}

# Names of telemetry: the registry is right, and what is made of it is what it says.
check_semconv() {
  with_cache_lock prepare_semconv_tools
  local python="$LITHIFY_CACHE/semconv/bin/python"
  "$python" scripts/semconv.py check "$tools/clang-format" && "$python" scripts/semconv_test.py
}

# The dependency table holds (the configuration fails otherwise) and the link tests pass.
check_dependencies() {
  bash scripts/build.sh >/dev/null && "$LITHIFY_PYTHON" scripts/dependency_test.py build &&
    "$LITHIFY_PYTHON" scripts/separation_test.py build
}

check_tidy() {
  bash scripts/build.sh || return 1
  ours 'src/*.cc' 'apps/*.cc' | grep -v '_test\.cc$' |
    xargs -r -P 2 -n 1 "$tools/clang-tidy" -p build --quiet
}

check_sanitizers() {
  LITHIFY_BUILD_DIR="$LITHIFY_ROOT/build-asan" \
    LITHIFY_CMAKE_ARGS="-DLITHIFY_SANITIZE=address,undefined" bash scripts/build.sh || return 1
  # The wheel's allocators are not instrumented: ownership that passes through them is no leak.
  # The crash tests preload a library of ours, before the sanitizer.
  ASAN_OPTIONS="detect_container_overflow=0:alloc_dealloc_mismatch=0:verify_asan_link_order=0" \
    LSAN_OPTIONS="suppressions=$LITHIFY_ROOT/scripts/lsan_suppressions.txt" \
    UBSAN_OPTIONS="print_stacktrace=1" \
    ctest --test-dir build-asan -L fast --parallel 2 --output-on-failure --no-tests=error
}

# Each fuzz target for LITHIFY_FUZZ_SECONDS, 60 unless told.
check_fuzz() {
  bash scripts/fuzz.sh
}

check_simulation() {
  bash scripts/build.sh || return 1
  LITHIFY_SIM_SEEDS="${LITHIFY_SIM_SEEDS:-10000}" build/tests/hive_sim_test &&
    LITHIFY_SIM_SEEDS="${LITHIFY_SIM_SEEDS:-10000}" build/tests/iceberg_sim_test &&
    LITHIFY_SIM_SEEDS="${LITHIFY_SIM_FLEETS:-1}" LITHIFY_SIM_TABLES=10000 \
      build/tests/maintenance_sim_test
}

check_crash() {
  bash scripts/build.sh || return 1
  LITHIFY_CRASH_KILLS="${LITHIFY_CRASH_KILLS:-500}" \
    "$LITHIFY_PYTHON" -m pytest tests/e2e/test_crash.py -q -p no:cacheprovider
}

# Files of several writers, of random shapes.
check_writers() {
  bash scripts/build.sh || return 1
  LITHIFY_WRITER_CASES="${LITHIFY_WRITER_CASES:-200}" \
    "$LITHIFY_PYTHON" -m pytest tests/e2e/test_writers.py -q -p no:cacheprovider
}

# The status page in Chromium; screenshots of every view stay in build/page.
check_page() {
  bash scripts/build.sh || return 1
  "$LITHIFY_PYTHON" -m pytest tests/page -q -p no:cacheprovider
}

# Real services: each is started once by its test and stopped by its process id. Then the suites of
# the end-to-end tests on buckets, with faults on the way.
check_services() {
  bash scripts/build.sh || return 1
  ctest --test-dir build -L service --output-on-failure --no-tests=error &&
    LITHIFY_FLEET_NETWORK_ROUNDS="${LITHIFY_FLEET_NETWORK_ROUNDS:-20}" \
      "$LITHIFY_PYTHON" -m pytest tests/services -q -p no:cacheprovider &&
    PYTHONPATH=tests/services "$LITHIFY_PYTHON" -m pytest -p over_s3 tests/e2e -q \
      -p no:cacheprovider
}

check_spark() {
  bash scripts/build.sh || return 1
  local spark
  spark="$(bash tests/services/spark.sh)" || return 1
  LITHIFY_SPARK="$spark" "$LITHIFY_PYTHON" -m pytest tests/spark -q -p no:cacheprovider
}

# Workers as actors of a real Ray cluster of several nodes.
check_ray() {
  bash scripts/build.sh || return 1
  with_cache_lock prepare_fleet_tools
  "$LITHIFY_CACHE/fleet/bin/python" -m pytest tests/ray -q -p no:cacheprovider
}

# The Helm chart, rendered by Helm and held against Kubernetes' schemas.
check_deploy() {
  bash scripts/build.sh || return 1
  with_cache_lock prepare_fleet_tools
  "$LITHIFY_CACHE/fleet/bin/python" -m pytest tests/deploy -q -p no:cacheprovider
}

steps=(format style semconv dependencies tidy sanitizers fuzz simulation crash writers page services
  spark ray deploy)
if [ "${1:-}" = --fast ]; then
  steps=(format style semconv dependencies)
  shift
fi
[ $# -eq 0 ] || steps=("$@")

passed=0
failed=()
for step in "${steps[@]}"; do
  declare -F "check_$step" >/dev/null || die "no such check: $step"
  say "check: $step"
  # A subshell with its own -e: inside an `if` it would be ignored.
  set +e
  (set -e; "check_$step") </dev/null
  status=$?
  set -e
  if [ $status -eq 0 ]; then
    passed=$((passed + 1))
  else
    failed+=("$step")
  fi
done
for step in ${failed[@]+"${failed[@]}"}; do
  echo "FAILED: check $step"
done
echo "$passed passed, ${#failed[@]} failed"
[ ${#failed[@]} -eq 0 ]
