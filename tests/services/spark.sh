#!/usr/bin/env bash
# Spark 4.0 with Iceberg 1.10, downloaded once into the cache; it runs inside the test's process, so
# there is nothing to start or stop. Prints the directory that holds python/ and jars/.
# Usage: LITHIFY_SPARK=$(bash tests/services/spark.sh)
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../../scripts/setup.sh"
prepare_all

readonly SPARK_VERSION=4.0.1
readonly SPARK_APT=(openjdk-17-jre-headless maven)
# group:artifact:version
readonly JARS=(
  org.apache.iceberg:iceberg-spark-runtime-4.0_2.13:1.10.1
  org.xerial:sqlite-jdbc:3.50.3.0
)
readonly JAR_SUMS=(
  2192a0881ed0f5773b5a83a8820d2b0b2069beec203028643a1c338551007f09
  a3f53a2aa15ae9425a9e793bbe9c8e5288febeb4b65ef5c1a4e80d4c2045cf08
)

ensure_java() {
  command -v java >/dev/null && command -v mvn >/dev/null && return
  [ "$(id -u)" -eq 0 ] || die "Spark needs these packages: apt-get install ${SPARK_APT[*]}"
  say "installing with apt: ${SPARK_APT[*]}" >&2
  apt-get update -q >&2
  DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends "${SPARK_APT[@]}" >&2
}

# Maven's own files stay in the cache, so that nothing of the user's is touched.
fetch_jar() {
  local coordinates="$1" sum="$2" target="$3" group artifact version path
  IFS=: read -r group artifact version <<<"$coordinates"
  path="$LITHIFY_CACHE/maven/${group//.//}/$artifact/$version/$artifact-$version.jar"
  [ -e "$path" ] || mvn -q -B -U -Dmaven.repo.local="$LITHIFY_CACHE/maven" \
    org.apache.maven.plugins:maven-dependency-plugin:3.6.1:get \
    -Dartifact="$coordinates" -Dtransitive=false >&2 9>&-
  echo "$sum  $path" | sha256sum --check --quiet >&2
  cp "$path" "$target/"
}

prepare_spark() {
  local target="$LITHIFY_CACHE/spark-$SPARK_VERSION" work entry
  [ -d "$target" ] && return
  say "downloading Spark $SPARK_VERSION with Iceberg"
  work="$target.new"
  rm -rf "$work" && mkdir -p "$work/jars" "$work/python"
  "$LITHIFY_CACHE/venv/bin/python" -m pip download -q --disable-pip-version-check --no-deps \
    --require-hashes --no-binary :all: --no-build-isolation -d "$work" \
    -r "$LITHIFY_ROOT/requirements/spark.txt" 9>&- >&2
  tar -xzf "$work/pyspark-$SPARK_VERSION.tar.gz" -C "$work/python" --strip-components=1 \
    "pyspark-$SPARK_VERSION/pyspark" "pyspark-$SPARK_VERSION/deps"
  rm "$work/pyspark-$SPARK_VERSION.tar.gz"
  # An installed pyspark has jars and scripts inside the package.
  for entry in jars bin sbin data; do
    [ ! -d "$work/python/deps/$entry" ] || mv "$work/python/deps/$entry" "$work/python/pyspark/"
  done
  "$LITHIFY_CACHE/venv/bin/python" -m pip install -q --disable-pip-version-check --no-deps \
    --require-hashes --only-binary :all: --target "$work/python" \
    -r "$LITHIFY_ROOT/requirements/spark_gateway.txt" 9>&- >&2
  for entry in "${!JARS[@]}"; do
    fetch_jar "${JARS[$entry]}" "${JAR_SUMS[$entry]}" "$work/jars"
  done
  mv -T "$work" "$target"
}

ensure_java
with_cache_lock prepare_spark >&2
echo "$LITHIFY_CACHE/spark-$SPARK_VERSION"
