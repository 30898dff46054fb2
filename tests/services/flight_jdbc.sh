#!/usr/bin/env bash
# The Flight SQL JDBC driver, for tests: runs flight_jdbc/Statements.java with it. The driver comes
# from Maven once, pinned by sha256, into the cache.
#
#   flight_jdbc.sh run URL STATEMENT…   prints a JSON line for each row and each answer
#   flight_jdbc.sh fetch                only fills the cache
set -euo pipefail

readonly VERSION=18.3.0
readonly SHA256=3f418b46c880e263558c5de669bdbede2c5d4375527ced116fb29f795b03704c
readonly HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/flight_jdbc
readonly CACHE=${LITHIFY_CACHE:-$HOME/.cache/lithify}/flight-jdbc
readonly JAR=$CACHE/flight-sql-jdbc-driver-$VERSION.jar
readonly MAVEN_PLUGIN=org.apache.maven.plugins:maven-dependency-plugin:3.6.1

die() { printf 'flight_jdbc.sh: %s\n' "$*" >&2 && exit 1; }

fetch() {
  command -v java >/dev/null || die "a JDK 17 is needed"
  mkdir -p "$CACHE"
  exec 9>"$CACHE/lock"
  flock 9
  if ! echo "$SHA256  $JAR" | sha256sum --quiet -c - 2>/dev/null; then
    command -v mvn >/dev/null || die "Maven is needed to fetch the driver"
    mvn -B -q -ntp "$MAVEN_PLUGIN:copy" "-DoutputDirectory=$CACHE" \
      "-Dartifact=org.apache.arrow:flight-sql-jdbc-driver:$VERSION" >&2 9>&- ||
      die "Maven could not fetch it"
    echo "$SHA256  $JAR" | sha256sum --quiet -c - >&2 || die "it is not the one that is pinned"
  fi
  exec 9>&-
}

case ${1:-} in
  run)
    shift
    fetch
    exec java -Xmx256m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 \
      --add-opens=java.base/java.nio=ALL-UNNAMED -cp "$JAR" "$HERE/Statements.java" "$@"
    ;;
  fetch) fetch ;;
  *) die "usage: flight_jdbc.sh run URL STATEMENT… | fetch" ;;
esac
