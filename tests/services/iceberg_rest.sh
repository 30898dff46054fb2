#!/usr/bin/env bash
# A real Iceberg REST catalog for tests: Iceberg's own servlet on loopback, with SQLite and local
# files in DIR. The jars come from Maven once, pinned by sha256, into the cache.
#
#   iceberg_rest.sh start DIR   starts it (empty DIR: an empty catalog) and prints its URI
#   iceberg_rest.sh stop DIR    stops it
#   iceberg_rest.sh fetch       only fills the cache
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/server.sh"

readonly HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/iceberg_rest
readonly CACHE=${LITHIFY_CACHE:-$HOME/.cache/lithify}/iceberg-rest
readonly MAVEN_PLUGIN=org.apache.maven.plugins:maven-dependency-plugin:3.6.1

fetch() {
  command -v java >/dev/null && command -v javac >/dev/null || die "a JDK 17 is needed"
  mkdir -p "$CACHE"
  exec 9>"$CACHE/lock"
  flock 9
  if ! (cd "$CACHE/lib" 2>/dev/null && sha256sum --quiet -c "$HERE/jars.sha256" 2>/dev/null); then
    command -v mvn >/dev/null || die "Maven is needed to fetch the jars"
    rm -rf "$CACHE/lib.new"
    mvn -B -q -ntp -f "$HERE/pom.xml" "$MAVEN_PLUGIN:copy-dependencies" \
      "-DoutputDirectory=$CACHE/lib.new" >&2 || die "Maven could not fetch the jars"
    (cd "$CACHE/lib.new" && sha256sum --quiet -c "$HERE/jars.sha256") >&2 \
      || die "a jar is not the one that jars.sha256 pins"
    rm -rf "$CACHE/lib"
    mv "$CACHE/lib.new" "$CACHE/lib"
  fi
  if [[ ! -e $CACHE/classes/RestServer.class || \
        $HERE/RestServer.java -nt $CACHE/classes/RestServer.class ]]; then
    javac -d "$CACHE/classes" -cp "$CACHE/lib/*" "$HERE/RestServer.java" >&2
  fi
  exec 9>&-
}

start() {
  local dir=$1
  fetch
  mkdir -p "$dir"
  rm -f "$dir/port"
  java -Xmx256m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -cp "$CACHE/classes:$CACHE/lib/*" \
    RestServer "$dir" "$dir/port" >"$dir/server.log" 2>&1 </dev/null &
  local pid=$!
  echo "$pid" >"$dir/pid"
  disown "$pid"
  for _ in $(seq 300); do
    if [[ -e $dir/port ]]; then
      echo "http://127.0.0.1:$(<"$dir/port")"
      return
    fi
    kill -0 "$pid" 2>/dev/null || die "the server ended: $(tail -5 "$dir/server.log")"
    sleep 0.2
  done
  kill "$pid"
  die "the server was not ready within a minute"
}

case ${1:-} in
  start) start "${2:?directory}" ;;
  stop) stop "${2:?directory}" ;;
  fetch) fetch ;;
  *) die "usage: iceberg_rest.sh start DIR | stop DIR | fetch" ;;
esac
