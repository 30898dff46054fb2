#!/usr/bin/env bash
# Writes deploy/kubernetes/ anew: the chart's manifests, for those who do not use Helm.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
helm="$(bash tests/deploy/helm.sh)"
for form in apart cronjob; do
  "$helm" template lithify deploy/helm/lithify --namespace lithify \
    --values "tests/deploy/values/$form.yaml" | sed 's/[[:space:]]*$//' |
    sed 's/managed-by: Helm/managed-by: kubectl/; /helm.sh\/chart/d' >"deploy/kubernetes/$form.yaml"
done
