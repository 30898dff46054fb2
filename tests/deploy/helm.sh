#!/usr/bin/env bash
# Helm, built once into the cache from the versions pinned in helm/; that takes some minutes. Prints
# its path.
set -euo pipefail
readonly HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
source "$HERE/../services/server.sh"
source "$HERE/../services/go_program.sh"

go_program helm "$HERE/helm" helm.sh/helm/v4/cmd/helm
