# What the scripts share that build a Rust program for tests; sourced by them.
source "$(dirname "${BASH_SOURCE[0]}")/server.sh"

readonly BUILD_SECONDS=1800

# Another program for other sources.
version() {
  cat "$1"/Cargo.* "$1"/src/*.rs | sha256sum | cut -c1-12
}

# Cargo.lock.pinned is a Cargo.lock but for the lines that name the registry, which are cargo's own.
make_lock() {
  local copy=$1 registry
  cargo generate-lockfile --quiet --manifest-path "$copy/Cargo.toml" >&2 9>&- ||
    die "the registry cannot be read"
  registry=$(grep -m 1 '^source = ' "$copy/Cargo.lock")
  awk -v registry="$registry" '/^checksum = / { print registry } { print }' \
    "$copy/Cargo.lock.pinned" >"$copy/Cargo.lock"
}

# The program NAME of the sources in DIR, built once into the cache; prints its path. RUST is the
# oldest version of Rust that builds it.
rust_program() {
  local name=$1 dir=$2 rust=$3 cache program
  cache=${LITHIFY_CACHE:-$HOME/.cache/lithify}/${name/_/-}
  program=$cache/${name}-$(version "$dir")
  mkdir -p "$cache"
  exec 9>"$cache/lock"
  flock 9
  if [[ ! -x $program ]]; then
    command -v cargo >/dev/null || die "cargo with Rust $rust or newer is needed to build it"
    echo "$(basename "$0"): building, once; the first time takes some minutes" >&2
    rm -rf "$cache/source"
    cp -r "$dir" "$cache/source"
    make_lock "$cache/source"
    CARGO_TARGET_DIR=$cache/target nice -n 19 timeout "$BUILD_SECONDS" \
      cargo build --release --locked --quiet --manifest-path "$cache/source/Cargo.toml" >&2 9>&- ||
      die "the build failed"
    cp "$cache/target/release/$name" "$program.new"
    mv -T "$program.new" "$program"
  fi
  exec 9>&-
  echo "$program"
}
