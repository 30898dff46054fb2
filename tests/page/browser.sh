#!/usr/bin/env bash
# A browser for tests of the status page: Chromium with apt, unless there is one, and axe-core,
# which looks for what keeps people from reading a page, pinned in the cache. Prints where they are.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../../scripts/setup.sh"

readonly AXE_VERSION=4.14.1
readonly AXE_SHA256=e6b0ce02b84d892e2e33e403485e7f3d6c29e2be6df65daf44d89ba564139745

ensure_chromium() {
  command -v chromium >/dev/null && return
  ensure_apt chromium fonts-dejavu-core
}

unpack_axe() {
  local target="$LITHIFY_CACHE/axe-core-$AXE_VERSION" work="$LITHIFY_CACHE/axe-core.new"
  local name="axe-core-$AXE_VERSION.tgz"
  [ -d "$target" ] && return
  say "downloading axe-core $AXE_VERSION"
  rm -rf "$work" && mkdir -p "$work"
  (cd "$work" && run_npm pack --silent "axe-core@$AXE_VERSION" >/dev/null)
  printf '%s  %s\n' "$AXE_SHA256" "$work/$name" | sha256sum -c --quiet ||
    die "the package $name is not the one that was pinned: remove it from npm's cache, try again"
  tar -xzf "$work/$name" -C "$work" --strip-components=1 package/axe.min.js package/LICENSE
  rm "$work/$name"
  mv -T "$work" "$target"
}

ensure_chromium >&2
with_cache_lock unpack_axe >&2
command -v chromium
echo "$LITHIFY_CACHE/axe-core-$AXE_VERSION/axe.min.js"
