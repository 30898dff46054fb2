#!/usr/bin/env bash
# The Rust crate iceberg-compaction in its wheel for Python, downloaded once into the cache. Prints
# the directory to put into the module path.
#   LITHIFY_ICEBERG_COMPACTION=$(bash bench/iceberg_compaction.sh)
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../scripts/setup.sh"
prepare_all

readonly REQUIREMENTS=$LITHIFY_ROOT/requirements/bench.txt
readonly TARGET=$LITHIFY_CACHE/iceberg-compaction-$(sha256sum "$REQUIREMENTS" | cut -c1-12)

fetch() {
  [ ! -d "$TARGET" ] || return 0
  say "downloading iceberg-compaction"
  rm -rf "$TARGET.new"
  "$LITHIFY_CACHE/venv/bin/python" -m pip install -q --disable-pip-version-check --no-deps \
    --require-hashes --only-binary :all: --target "$TARGET.new" -r "$REQUIREMENTS" 9>&-
  mv -T "$TARGET.new" "$TARGET"
}

with_cache_lock fetch >&2
echo "$TARGET"
