# What the scripts share that build a Go program for tests; sourced by them, after server.sh.

readonly BUILD_SECONDS=1800

# go_program NAME DIR PACKAGE: the program of a package of the module in DIR, built once into the
# cache from the versions in go.mod, whose contents go.sum pins; prints its path.
go_program() {
  local name=$1 dir=$2 package=$3 cache version program go
  cache=${LITHIFY_CACHE:-$HOME/.cache/lithify}/${name//_/-}
  # Another program for other sources.
  version=$(find "$dir" -maxdepth 1 -type f \( -name 'go.*' -o -name '*.go' \) | LC_ALL=C sort |
    xargs cat | sha256sum | cut -c1-12)
  program=$cache/${name}-$version
  mkdir -p "$cache"
  exec 9>"$cache/lock"
  flock 9
  if [[ ! -x $program ]]; then
    go=$(command -v go || echo /usr/local/go/bin/go)
    [[ -x $go ]] || die "go 1.26 or newer is needed to build it"
    echo "$(basename "$0"): building, once; the first time takes some minutes" >&2
    # -mod=readonly: go.mod and go.sum are what they are.
    (cd "$dir" && GOTOOLCHAIN=local nice -n 19 timeout "$BUILD_SECONDS" \
      "$go" build -p 2 -mod=readonly -trimpath -buildvcs=false -o "$program.new" "$package" \
      >&2 9>&-) || die "the build failed"
    mv -T "$program.new" "$program"
  fi
  exec 9>&-
  echo "$program"
}
