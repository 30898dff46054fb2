#!/usr/bin/env bash
# A real identity provider for tests: Keycloak on loopback, with the realms of keycloak/ and its
# database in DIR. It is fetched by Maven once, pinned by sha256, and built once into the cache.
#
#   keycloak.sh start DIR      starts it and prints its address; the first time that takes minutes.
#                              Realm `lithify` has the users alice (password `wonderland`) and bob
#                              (`builder`), realm `other` an alice of its own; the administrator of
#                              all is `admin`, password `not a secret`
#   keycloak.sh stop DIR       stops it
#   keycloak.sh fetch          only fills the cache
set -euo pipefail
readonly HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
source "$HERE/server.sh"

readonly VERSION=26.7.3
readonly SHA256=27a6535553c3cdcd083872ba40629efafb3475e3b758e0c6f691395561dd0f1f
readonly CACHE=${LITHIFY_CACHE:-$HOME/.cache/lithify}
readonly ROOT=$CACHE/keycloak-$VERSION
readonly MAVEN_PLUGIN=org.apache.maven.plugins:maven-dependency-plugin:3.6.1
readonly THREADS=io.quarkus.bootstrap.forkjoin.QuarkusForkJoinWorkerThreadFactory
readonly BUILD_SECONDS=3600
readonly READY_SECONDS=900

# Java 21 or newer: JAVA_HOME, what Debian's packages install, or the default.
find_java() {
  local home
  for home in "${JAVA_HOME:-}" /usr/lib/jvm/*-25-* /usr/lib/jvm/*-21-*; do
    [[ -n $home && -x $home/bin/java ]] || continue
    if "$home/bin/java" --version 2>/dev/null | grep -qE '^(openjdk|java) (2[1-9]|[3-9][0-9])'; then
      echo "$home"
      return
    fi
  done
  die "Java 21 or newer is needed: set JAVA_HOME"
}

unpack() {
  local zip=$1
  "$CACHE/venv/bin/python" -m zipfile -e "$zip" "$ROOT.new" 9>&-
  mv "$ROOT.new/keycloak-$VERSION"/* "$ROOT.new/"
  rmdir "$ROOT.new/keycloak-$VERSION"
}

fetch() {
  local zip=$CACHE/keycloak-quarkus-dist-$VERSION.zip
  mkdir -p "$CACHE"
  exec 9>"$CACHE/keycloak.lock"
  flock 9
  if [[ ! -d $ROOT ]]; then
    if ! echo "$SHA256  $zip" | sha256sum --quiet -c - 2>/dev/null; then
      command -v mvn >/dev/null || die "Maven is needed to fetch Keycloak"
      echo "keycloak.sh: downloading Keycloak $VERSION, once" >&2
      mvn -B -q -ntp "$MAVEN_PLUGIN:copy" "-DoutputDirectory=$CACHE" \
        "-Dartifact=org.keycloak:keycloak-quarkus-dist:$VERSION:zip" >&2 9>&- ||
        die "Maven could not fetch it"
      echo "$SHA256  $zip" | sha256sum --quiet -c - >&2 || die "it is not the one that is pinned"
    fi
    echo "keycloak.sh: building Keycloak $VERSION, once; that takes some minutes" >&2
    rm -rf "$ROOT.new"
    unpack "$zip"
    JAVA_HOME=$JAVA nice -n 19 timeout "$BUILD_SECONDS" sh "$ROOT.new/bin/kc.sh" build \
      --db=dev-file >"$ROOT.new/build.log" 2>&1 9>&- ||
      die "the build failed: $(tail -5 "$ROOT.new/build.log")"
    mv -T "$ROOT.new" "$ROOT"
    rm -f "$zip"
  fi
  exec 9>&-
}

# Tries a port; fails if the server ends, as it does when the port is taken. It is run as its own
# script would, but for that script, which would not end with the server.
try() {
  local dir=$1 port=$2 home=$1/home pid
  KC_BOOTSTRAP_ADMIN_USERNAME=admin KC_BOOTSTRAP_ADMIN_PASSWORD='not a secret' \
    nice -n 5 "$JAVA/bin/java" -Xms64m -Xmx512m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 \
    -XX:+ExitOnOutOfMemoryError --enable-native-access=ALL-UNNAMED \
    --add-opens=java.base/java.util=ALL-UNNAMED \
    --add-opens=java.base/java.util.concurrent=ALL-UNNAMED \
    --add-opens=java.base/java.security=ALL-UNNAMED --add-opens=java.base/java.lang=ALL-UNNAMED \
    "-Djava.util.concurrent.ForkJoinPool.common.threadFactory=$THREADS" \
    -Djava.util.logging.manager=org.jboss.logmanager.LogManager -Dpicocli.disable.closures=true \
    -Dkc.home.dir="$home" -Djboss.server.config.dir="$home/conf" \
    -cp "$home/lib/quarkus-run.jar" io.quarkus.bootstrap.runner.QuarkusEntryPoint \
    start --optimized --http-enabled=true --http-host=127.0.0.1 --http-port="$port" \
    --hostname-strict=false --cache=local --import-realm >"$dir/server.log" 2>&1 </dev/null &
  pid=$!
  disown "$pid"
  for _ in $(seq $((READY_SECONDS * 2))); do
    sleep 0.5
    kill -0 "$pid" 2>/dev/null || return 1
    if curl -s --fail -o /dev/null --max-time 20 --noproxy '*' \
      "http://127.0.0.1:$port/realms/other/.well-known/openid-configuration"; then
      kill -0 "$pid" 2>/dev/null || return 1
      echo "$pid" >"$dir/pid"
      return
    fi
  done
  kill "$pid"
  die "the server was not ready within $READY_SECONDS seconds: $(tail -5 "$dir/server.log")"
}

start() {
  local dir=$1 port part
  fetch
  mkdir -p "$dir/home/data/import"
  for part in lib providers themes conf; do ln -sfn "$ROOT/$part" "$dir/home/$part"; done
  cp "$HERE"/keycloak/*.json "$dir/home/data/import/"
  start_on_a_port "$dir" 20000 12000
  echo "http://127.0.0.1:$port"
}

case ${1:-} in
  start | fetch)
    JAVA=$(find_java)
    readonly JAVA
    ;;&
  start) start "${2:?directory}" ;;
  stop) stop "${2:?directory}" ;;
  fetch) fetch ;;
  *) die "usage: keycloak.sh start DIR | stop DIR | fetch" ;;
esac
