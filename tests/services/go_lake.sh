#!/usr/bin/env bash
# The writer and reader of tests/go, built once into the cache from its pinned sources. Prints the
# program's path.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/server.sh"
source "$(dirname "${BASH_SOURCE[0]}")/go_program.sh"

go_program go_lake "$(cd "$(dirname "${BASH_SOURCE[0]}")/../go" && pwd)" .
