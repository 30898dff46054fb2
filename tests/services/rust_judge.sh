#!/usr/bin/env bash
# The writer and judge of tests/rust, built once into the cache from its pinned sources. Prints the
# program's path.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/rust_program.sh"

rust_program rust_judge "$(cd "$(dirname "${BASH_SOURCE[0]}")/../rust" && pwd)" 1.88
