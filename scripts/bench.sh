#!/usr/bin/env bash
# ./dev bench [ARGS…]: see bench/run.py --help; ./dev bench iceberg [ARGS…]: bench/iceberg.py
# --help; ./dev bench ingest [ARGS…]: bench/ingest.py --help; ./dev bench s3 [ARGS…]: bench/s3.py
# --help; ./dev bench server [ARGS…]: bench/server.py --help; ./dev bench sort [ARGS…]:
# bench/sort.py --help; ./dev bench fleet [ARGS…]:
# bench/fleet.py --help, as root; ./dev bench fleet-model [ARGS…]: how rewriting scales over
# workers, by a model (bench/fleet_model.cc, --help).
# The peers that are not wheels of the judges are fetched or built first, once: Spark, and two tools
# in Rust, one of which takes cargo about ten minutes. What cannot be had is left out and said so.
# LITHIFY_BENCH_PEERS=wheels leaves them all out.
# Leave the machine alone while it runs.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"
prepare_all
bash "$LITHIFY_ROOT/scripts/build.sh"

# peer NAME SCRIPT: sets NAME to the directory that the script prints, if it can be had.
peer() {
  local where
  [ "${LITHIFY_BENCH_PEERS:-all}" = all ] || return 0
  if where="$(bash "$LITHIFY_ROOT/$2")"; then
    export "$1=$where"
  else
    say "left out, since $2 could not get it"
  fi
}

what="${1:-}"
case "$what" in
  s3)
    shift
    exec "$LITHIFY_PYTHON" "$LITHIFY_ROOT/bench/s3.py" "$@"
    ;;
  sort)
    shift
    exec "$LITHIFY_PYTHON" "$LITHIFY_ROOT/bench/sort.py" "$@"
    ;;
  fleet-model)
    shift
    exec "$LITHIFY_ROOT/build/bench/fleet_model" --rates "$LITHIFY_ROOT/bench/fleet_rates.json" "$@"
    ;;
  server)
    shift
    exec "$LITHIFY_PYTHON" "$LITHIFY_ROOT/bench/server.py" "$@"
    ;;
  ingest)
    shift
    exec "$LITHIFY_PYTHON" "$LITHIFY_ROOT/bench/ingest.py" "$@"
    ;;
  fleet)
    shift
    exec "$LITHIFY_PYTHON" "$LITHIFY_ROOT/bench/fleet.py" "$@"
    ;;
  iceberg)
    shift
    LITHIFY_SPARK="$(bash "$LITHIFY_ROOT/tests/services/spark.sh")"
    export LITHIFY_SPARK
    peer LITHIFY_ICEBERG_COMPACTION bench/iceberg_compaction.sh
    exec "$LITHIFY_PYTHON" "$LITHIFY_ROOT/bench/iceberg.py" "$@"
    ;;
  *)
    peer LITHIFY_SPARK tests/services/spark.sh
    peer LITHIFY_PARQUET_RUST bench/parquet_rust.sh
    "$LITHIFY_PYTHON" "$LITHIFY_ROOT/bench/run.py" "$@"
    say "more workers than there are machines, by the model"
    exec "$LITHIFY_ROOT/build/bench/fleet_model" --rates "$LITHIFY_ROOT/bench/fleet_rates.json"
    ;;
esac
