#!/usr/bin/env bash
# ./dev test [PYTEST ARGS…]: builds, runs the fast unit tests (ctest) and the end-to-end tests
# (pytest, on the real binary). The last line is `N passed, N failed`.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"
prepare_all
bash "$LITHIFY_ROOT/scripts/build.sh"

reports="$LITHIFY_ROOT/build/reports"
rm -rf "$reports" && mkdir -p "$reports"

say "unit tests"
ctest --test-dir "$LITHIFY_ROOT/build" -L fast --parallel 2 --output-on-failure --progress \
  --no-tests=error --output-junit "$reports/unit.xml" </dev/null || true

say "end-to-end tests"
# Of lithify-ray what needs no Ray, and one rewrite on a Ray cluster where ./dev check ray has
# installed that; the rest is ./dev check ray.
"$LITHIFY_PYTHON" -m pytest "$LITHIFY_ROOT/tests/e2e" "$LITHIFY_ROOT/tests/ray/test_policy.py" \
  "$LITHIFY_ROOT/tests/ray/test_keeper.py" -q -p no:cacheprovider \
  --junitxml="$reports/e2e.xml" "$@" </dev/null || true

ray=()
if [ $# -eq 0 ] && [ -x "$LITHIFY_CACHE/fleet/bin/python" ]; then
  say "a rewrite on a Ray cluster"
  ray=("$reports/ray.xml")
  timeout 300 "$LITHIFY_CACHE/fleet/bin/python" -m pytest -q -p no:cacheprovider \
    "$LITHIFY_ROOT/tests/ray/test_rewrite.py" --junitxml="${ray[0]}" </dev/null || true
fi

say "the fleet on a network"
# Where there can be one: needs root. All else that needs services is ./dev check services.
"$LITHIFY_PYTHON" -m pytest "$LITHIFY_ROOT/tests/services/test_fleet_network.py" \
  "$LITHIFY_ROOT/tests/services/test_fleet_lies.py" -q -rs -p no:cacheprovider \
  --junitxml="$reports/network.xml" "$@" </dev/null || true

"$LITHIFY_PYTHON" "$LITHIFY_ROOT/scripts/tally.py" "$reports/unit.xml" "$reports/e2e.xml" \
  "$reports/network.xml" ${ray[@]+"${ray[@]}"}
