#!/usr/bin/env bash
# ./dev bench [ARGS…]: see bench/run.py --help; ./dev bench iceberg [ARGS…]: bench/iceberg.py
# --help; ./dev bench ingest [ARGS…]: bench/ingest.py --help.
# Leave the machine alone while it runs.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"
prepare_all
bash "$LITHIFY_ROOT/scripts/build.sh"
if [ "${1:-}" = ingest ]; then
  shift
  exec "$LITHIFY_PYTHON" "$LITHIFY_ROOT/bench/ingest.py" "$@"
fi
if [ "${1:-}" = iceberg ]; then
  shift
  LITHIFY_SPARK="$(bash "$LITHIFY_ROOT/tests/services/spark.sh")"
  export LITHIFY_SPARK
  exec "$LITHIFY_PYTHON" "$LITHIFY_ROOT/bench/iceberg.py" "$@"
fi
exec "$LITHIFY_PYTHON" "$LITHIFY_ROOT/bench/run.py" "$@"
