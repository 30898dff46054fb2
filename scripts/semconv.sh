#!/usr/bin/env bash
# semconv.sh check|write: scripts/semconv.py with what it needs.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"
with_cache_lock prepare_check_tools
with_cache_lock prepare_semconv_tools
exec "$LITHIFY_CACHE/semconv/bin/python" "$LITHIFY_ROOT/scripts/semconv.py" "${1:-check}" \
  "$LITHIFY_CACHE/check-tools/bin/clang-format"
