#!/usr/bin/env bash
# ./dev bench [ARGS…]: see bench/run.py --help. Leave the machine alone while it runs.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"
prepare_all
bash "$LITHIFY_ROOT/scripts/build.sh" lithify
exec "$LITHIFY_PYTHON" "$LITHIFY_ROOT/bench/run.py" "$@"
