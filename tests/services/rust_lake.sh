#!/usr/bin/env bash
# The writer and judge of tests/rust_iceberg, built once into the cache from its pinned sources.
# Prints the program's path.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/rust_program.sh"

rust_program rust_lake "$(cd "$(dirname "${BASH_SOURCE[0]}")/../rust_iceberg" && pwd)" 1.94
