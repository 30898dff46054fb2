"""The Helm chart: every set of values gives resources that Kubernetes' own schemas accept, and what
is said of their security holds of what is rendered, not of what was meant."""

import copy
import ipaddress
import json
import tomllib

import kubernetes_validate
import pytest
from conftest import CHART, HERE, ROOT, SETS, resources_of

VERSIONS = ("1.27", "1.30", "1.33", "1.37")
WORKLOADS = ("Deployment", "StatefulSet", "CronJob")


def template_of(resource):
    spec = resource["spec"]
    return (spec["jobTemplate"]["spec"] if resource["kind"] == "CronJob" else spec)["template"]


def pods_of(resources):
    """(component, pod template) of each workload."""
    for (kind, _), resource in resources.items():
        if kind in WORKLOADS:
            template = template_of(resource)
            yield template["metadata"]["labels"]["app.kubernetes.io/component"], template


def pod(resources, component):
    found, = [template["spec"] for name, template in pods_of(resources) if name == component]
    return found


def container(resources, component):
    found, = pod(resources, component)["containers"]
    return found


def policy(resources, component):
    found, = [resource["spec"] for (kind, name), resource in resources.items()
              if kind == "NetworkPolicy" and name.endswith("-" + component)]
    return found


def matches(selector, labels):
    return all(labels.get(key) == value for key, value in selector["matchLabels"].items())


def secrets_of(spec):
    """Names of the secrets that the pod sees, by volume or variable."""
    names = {volume["secret"]["secretName"] for volume in spec["volumes"] if "secret" in volume}
    for one in spec["containers"]:
        names |= {env["valueFrom"]["secretKeyRef"]["name"] for env in one["env"]
                  if "valueFrom" in env}
    return names


# What is rendered.

@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", SETS)
def test_schema(sets, name, version):
    """Strict: a field that Kubernetes does not know is an error, too."""
    for resource in sets[name].values():
        assert kubernetes_validate.validate(resource, version, strict=True) == version


def test_schema_can_say_no(sets):
    broken = copy.deepcopy(sets["apart"]["Deployment", "demo-lithify-worker"])
    template_of(broken)["spec"]["containers"][0]["readinesProbe"] = {}
    with pytest.raises(kubernetes_validate.ValidationError, match="readinesProbe"):
        kubernetes_validate.validate(broken, VERSIONS[-1], strict=True)
    broken = copy.deepcopy(sets["apart"]["Deployment", "demo-lithify-worker"])
    broken["spec"]["replicas"] = "four"
    with pytest.raises(kubernetes_validate.ValidationError, match="four"):
        kubernetes_validate.validate(broken, VERSIONS[-1], strict=True)


@pytest.mark.parametrize("name", SETS)
def test_lint(helm, name):
    helm("lint", CHART, "--strict", "--values", HERE / "values" / f"{name}.yaml")


def test_what_there_is(sets):
    kinds = {name: sorted(f"{kind}/{resource.replace('demo-lithify-', '')}"
                          for kind, resource in sets[name] if kind in (*WORKLOADS, "Service"))
             for name in SETS}
    assert kinds == {
        "apart": ["Deployment/worker", "Service/maintain", "Service/server", "Service/server-pods",
                  "Service/worker", "StatefulSet/maintain", "StatefulSet/server"],
        "together": ["Deployment/worker", "Service/server", "Service/server-pods", "Service/worker",
                     "StatefulSet/server"],
        "cronjob": ["CronJob/keeper-maintain", "Deployment/keeper-worker", "Service/keeper-worker"],
        "server_only": ["Service/server", "Service/server-pods", "StatefulSet/server"]}
    assert container(sets["together"], "server")["command"] == ["lithifyd"]
    assert container(sets["apart"], "server")["command"] == ["lithify-serve"]
    assert container(sets["apart"], "maintain")["command"] == ["lithify-maintain"]


@pytest.mark.parametrize("name", SETS)
def test_selectors_find_their_pods(sets, name):
    """Each workload, service, budget and policy selects pods of its component, and of no other."""
    resources = sets[name]
    labels = {component: template["metadata"]["labels"]
              for component, template in pods_of(resources)}
    assert len(labels) >= 1
    for (kind, resource_name), resource in resources.items():
        spec = resource.get("spec", {})
        selector = spec.get("selector") or spec.get("podSelector")
        if kind == "CronJob" or selector is None:
            continue
        selector = selector if "matchLabels" in selector else {"matchLabels": selector}
        found = [component for component, of_pod in labels.items() if matches(selector, of_pod)]
        expected = resource_name.removesuffix("-pods").rpartition("-")[2]
        assert found == [expected], (kind, resource_name)


@pytest.mark.parametrize("name", SETS)
def test_what_is_mounted_is_there(sets, name):
    for _, template in pods_of(sets[name]):
        spec = template["spec"]
        volumes = [volume["name"] for volume in spec["volumes"]]
        owner, = [resource for (kind, _), resource in sets[name].items()
                  if kind in WORKLOADS and template_of(resource) is template]
        volumes += [claim["metadata"]["name"]
                    for claim in owner["spec"].get("volumeClaimTemplates", [])]
        for one in spec["containers"]:
            assert sorted(mount["name"] for mount in one["volumeMounts"]) == sorted(volumes)
            paths = [mount["mountPath"] for mount in one["volumeMounts"]]
            assert len(set(paths)) == len(paths)
            # Every file that an argument or the worker's configuration names lies in a mount.
            texts = [argument.rpartition("=")[2] for argument in
                     [*one.get("args", []), *probe_commands(one)]]
            for text in texts:
                if text.startswith("/"):
                    assert any(text.startswith(path + "/") for path in paths), text


def probe_commands(one):
    return [part for probe in ("startupProbe", "readinessProbe", "livenessProbe")
            for part in one.get(probe, {}).get("exec", {}).get("command", [])]


# Security.

@pytest.mark.parametrize("name", SETS)
def test_pods_are_restricted(sets, name):
    """Kubernetes' Pod Security Standard "restricted", a read-only root, no token of the cluster."""
    assert list(pods_of(sets[name]))
    for _, template in pods_of(sets[name]):
        spec = template["spec"]
        assert spec["automountServiceAccountToken"] is False and spec["enableServiceLinks"] is False
        assert not (spec["hostNetwork"] or spec["hostPID"] or spec["hostIPC"])
        assert spec["securityContext"]["runAsNonRoot"] is True
        assert spec["securityContext"].get("runAsUser", 1) != 0
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert "initContainers" not in spec
        for volume in spec["volumes"]:
            assert set(volume) - {"name"} <= {"configMap", "secret", "emptyDir",
                                              "persistentVolumeClaim"}
        for one in spec["containers"]:
            context = one["securityContext"]
            assert context == {"runAsNonRoot": True, "allowPrivilegeEscalation": False,
                               "privileged": False, "readOnlyRootFilesystem": True,
                               "capabilities": {"drop": ["ALL"]}}
            assert one["resources"]["limits"]["memory"] and one["resources"]["requests"]["cpu"]
            assert not any("hostPort" in port for port in one.get("ports", []))
        account = sets[name]["ServiceAccount", spec["serviceAccountName"]]
        assert account["automountServiceAccountToken"] is False


@pytest.mark.parametrize("name", SETS)
def test_no_rights_in_the_cluster(sets, name):
    assert not {kind for kind, _ in sets[name]} & {"Role", "RoleBinding", "ClusterRole",
                                                   "ClusterRoleBinding", "Secret"}


def test_who_sees_which_secret(sets):
    """Workers see nothing of the principal or the catalog, the server nothing of the principal, and
    no coordinator the workers' key."""
    apart, together = sets["apart"], sets["together"]
    assert secrets_of(pod(apart, "server")) == {"lithify-server-tls", "lithify-fleet",
                                                "lithify-worker-tls"}
    assert secrets_of(pod(apart, "maintain")) == {"lithify-principal", "lithify-fleet",
                                                  "lithify-worker-tls"}
    assert secrets_of(pod(apart, "worker")) == {"lithify-fleet", "lithify-worker-tls"}
    assert secrets_of(pod(together, "server")) == {
        "lithify-server-tls", "lithify-oidc", "lithify-principal", "lithify-fleet",
        "lithify-worker-tls", "lithify-coordinator-tls"}
    assert secrets_of(pod(together, "worker")) == {"lithify-fleet", "lithify-worker-tls",
                                                   "lithify-data"}
    for name in ("apart", "together", "cronjob"):
        for component, template in pods_of(sets[name]):
            for volume in template["spec"]["volumes"]:
                secret = volume.get("secret", {})
                if secret.get("secretName") == "lithify-worker-tls" and component != "worker":
                    assert secret["items"] == [{"key": "ca.crt", "path": "ca.crt"}]
                if secret:
                    assert secret["defaultMode"] == 0o440


@pytest.mark.parametrize("sets_of_values, told", [
    (["worker.extraConfig=secret = \"0123456789abcdef0123456789abcdef\""], "a secret in clear"),
    (["worker.extraConfig=secret_access_key = 'abc'"], "a secret in clear"),
    (["config=[a]\nclient_secret = \"abc\""], "a secret in clear"),
    (["config=[a]\n  token=\"abc\""], "a secret in clear"),
    (["fleet.secret=abc"], "additional properties 'secret' not allowed"),
    (["worker.s3.secretAccessKey=abc"], "additional properties 'secretAccessKey' not allowed"),
    (["user.runAsUser=0"], "minimum: got 0, want 1"),
    (["worker.port=443"], "minimum: got 443, want 1,024"),
    (["fleet.existingSecret="], "fleet.existingSecret: coordinator and workers need"),
    (["worker.tls.existingSecret="], "worker.tls.existingSecret: workers need a certificate"),
    (["worker.tls.mutual=true"], "fleet.clientTls.existingSecret: workers ask for a certificate"),
    (["server.tls.existingSecret="], "server.tls.existingSecret: the server needs a certificate"),
    (["coordinator.form=together", "server.replicas=2"], "server.replicas: one process"),
    (["coordinator.form=together", "maintain.form=cronjob"], "needs coordinator.form = apart"),
    (["server.enabled=false", "maintain.form=none"], "nothing to run"),
    (["config="], "lithify.toml is empty"),
    (["networkPolicy.storage.cidrs={10.0.0.0/8}"], "networkPolicy.deniedToWorkers: goes with"),
])
def test_refused(helm, sets_of_values, told):
    message = helm("template", "demo", CHART, "--values", HERE / "values" / "apart.yaml",
                   *(part for one in sets_of_values for part in ("--set", one)), ok=False)
    assert told in message


def test_references_to_secrets_are_fine(helm):
    helm("template", "demo", CHART, "--values", HERE / "values" / "apart.yaml", "--set",
         'config=# secret = "no"\nclient_secret = "${NAME}"\nclient_secret_file = "/run/x"\n'
         'token_endpoint = "https://idp.example/token"')


def test_only_coordinators_reach_workers(sets):
    for name, coordinators in (("apart", ["maintain", "server"]), ("together", ["server"]),
                               ("cronjob", ["maintain"])):
        rules = policy(sets[name], "worker")
        assert rules["policyTypes"] == ["Ingress", "Egress"]
        rule, = rules["ingress"]
        assert rule["ports"] == [{"port": "flight", "protocol": "TCP"}]
        labels = {component: template["metadata"]["labels"]
                  for component, template in pods_of(sets[name])}
        allowed = sorted(component for component, of_pod in labels.items()
                         if any(matches(peer["podSelector"], of_pod) for peer in rule["from"]))
        # A peer with a podSelector alone means pods of the policy's own namespace.
        assert allowed == coordinators
        assert all(set(peer) == {"podSelector"} for peer in rule["from"])
        assert container(sets[name], "worker")["ports"][0]["name"] == "flight"
    assert policy(sets["apart"], "maintain")["ingress"] == []


def allowed_addresses(rules, address):
    """Ports on which the policy lets a connection out to this address."""
    address = ipaddress.ip_address(address)
    ports = set()
    for rule in rules["egress"]:
        for peer in rule["to"]:
            block = peer.get("ipBlock")
            if block and address in ipaddress.ip_network(block["cidr"]) and not any(
                    address in ipaddress.ip_network(part) for part in block.get("except", [])):
                ports |= {port["port"] for port in rule["ports"]}
    return ports


def test_where_workers_may_go(sets):
    rules = policy(sets["apart"], "worker")
    assert allowed_addresses(rules, "203.0.113.5") == {443}
    assert allowed_addresses(rules, "2001:db8::1") == {443}
    assert allowed_addresses(rules, "198.51.100.7") == set()  # The catalog.
    assert allowed_addresses(rules, "169.254.169.254") == set()  # The cloud's credentials.
    assert allowed_addresses(rules, "fd00:ec2::254") == set()
    narrow = policy(sets["together"], "worker")
    assert allowed_addresses(narrow, "192.0.2.9") == {443, 9000}
    assert allowed_addresses(narrow, "203.0.113.5") == set()
    assert {"podSelector": {"matchLabels": {"app": "minio"}}} in [
        peer for rule in narrow["egress"] for peer in rule["to"]]
    for name in ("apart", "together", "cronjob"):
        for rule in policy(sets[name], "worker")["egress"]:
            assert rule["to"] and rule["ports"]  # An empty list would mean everywhere.
            for peer in rule["to"]:
                block = peer.get("ipBlock", {"cidr": "::/0"})
                whole = ipaddress.ip_network(block["cidr"])
                for part in block.get("except", []):
                    assert ipaddress.ip_network(part).subnet_of(whole)  # Else it is not accepted.


def test_clients_of_the_server(sets):
    rule, = policy(sets["together"], "server")["ingress"]
    assert rule["from"] == [{"namespaceSelector": {"matchLabels": {"team": "analytics"}}}]
    rule, = policy(sets["apart"], "server")["ingress"]
    assert "from" not in rule and rule["ports"] == [{"port": "flight-sql", "protocol": "TCP"}]


# How it runs.

@pytest.mark.parametrize("name", ["apart", "together"])
def test_the_server_is_asked_over_http(sets, name):
    """Also where it wants certificates of its clients; by the kubelet alone."""
    one = container(sets[name], "server")
    port, = [port["containerPort"] for port in one["ports"] if port["name"] == "probes"]
    assert f"--set=server.health_listen=0.0.0.0:{port}" in one["args"]
    for probe, path in (("startupProbe", "readyz"), ("readinessProbe", "readyz"),
                        ("livenessProbe", "healthz")):
        assert one[probe]["httpGet"] == {"path": f"/{path}", "port": "probes"}
    service = sets[name]["Service", "demo-lithify-server"]["spec"]
    assert [port["targetPort"] for port in service["ports"]] == ["flight-sql"]
    for rule in policy(sets[name], "server")["ingress"]:
        assert [port["port"] for port in rule["ports"]] == ["flight-sql"]


def test_workers(sets):
    one = container(sets["apart"], "worker")
    worker = tomllib.loads(
        sets["apart"]["ConfigMap", "demo-lithify-worker"]["data"]["worker.toml"])
    assert worker == {"worker": {
        "listen": "0.0.0.0:9140", "secret_file": "/run/secrets/lithify-fleet/secret",
        "tls_cert": "/run/secrets/lithify-worker/tls.crt",
        "tls_key": "/run/secrets/lithify-worker/tls.key",
        "max_inflight_groups": 2, "threads": 2, "memory": "3GiB", "drain": "30s"}}
    assert one["args"] == ["--config=/etc/lithify/worker.toml"]
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        assert one[probe]["exec"]["command"] == [
            "lithify-worker", "--probe=localhost:9140", "--ca=/run/secrets/lithify-worker/ca.crt"]
    spec = pod(sets["apart"], "worker")
    assert spec["terminationGracePeriodSeconds"] == 45  # drain and a little more.
    spill, = [volume for volume in spec["volumes"] if volume["name"] == "spill"]
    assert spill["emptyDir"] == {"sizeLimit": "10Gi"}
    service = sets["apart"]["Service", "demo-lithify-worker"]["spec"]
    assert service["clusterIP"] == "None" and service["publishNotReadyAddresses"] is False


def test_workers_with_certificates_on_both_sides(sets):
    worker = tomllib.loads(
        sets["together"]["ConfigMap", "demo-lithify-worker"]["data"]["worker.toml"])["worker"]
    assert worker["tls_client_ca"] == "/run/secrets/lithify-worker/ca.crt"
    assert worker["s3"] == {"access_key_id": "${LITHIFY_WORKER_S3_KEY}", "region": "eu-central-1",
                            "endpoint": "https://minio.lake:9000",
                            "secret_access_key": "${LITHIFY_WORKER_S3_SECRET}"}
    assert worker["endpoints"] == ["https://minio.lake:9000"] and worker["unadopted"] == "5min"
    assert {env["name"] for env in container(sets["together"], "worker")["env"]} >= {
        "LITHIFY_WORKER_S3_KEY", "LITHIFY_WORKER_S3_SECRET"}
    # A probe shows the worker's own.
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        assert container(sets["together"], "worker")[probe]["exec"]["command"] == [
            "lithify-worker", "--probe=localhost:9140", "--ca=/run/secrets/lithify-worker/ca.crt",
            "--cert=/run/secrets/lithify-worker/tls.crt",
            "--key=/run/secrets/lithify-worker/tls.key"]
    autoscaler = sets["together"]["HorizontalPodAutoscaler", "demo-lithify-worker"]["spec"]
    assert (autoscaler["minReplicas"], autoscaler["maxReplicas"]) == (3, 30)
    assert "replicas" not in sets["together"]["Deployment", "demo-lithify-worker"]["spec"]


def fleet_of(resources, component):
    return dict(argument.removeprefix("--set=fleet.").split("=", 1)
                for argument in container(resources, component)["args"]
                if argument.startswith("--set=fleet."))


def test_coordinators_know_their_workers(sets):
    told = fleet_of(sets["apart"], "server")
    assert told == fleet_of(sets["apart"], "maintain") == {
        "distribution": "auto", "discovery": "dns",
        "dns": "demo-lithify-worker.lake.svc.cluster.local:9140",
        "secret_file": "/run/secrets/lithify-fleet/secret",
        "tls_ca": "/run/secrets/lithify-fleet-ca/ca.crt", "min_workers": "1",
        "max_inflight_groups_per_worker": "2", "queue_file": "/run/lithify/queue.json"}
    name, _, port = told["dns"].partition(":")
    service = sets["apart"]["Service", name.split(".")[0]]["spec"]
    assert service["ports"][0]["port"] == int(port)
    mutual = fleet_of(sets["together"], "server")
    assert mutual["tls_cert"] == "/run/secrets/lithify-fleet-client/tls.crt"
    assert mutual["distribution"] == "require"
    assert fleet_of(sets["server_only"], "server") == {"distribution": "local"}


def test_cron_job(sets):
    job = sets["cronjob"]["CronJob", "keeper-maintain"]["spec"]
    assert (job["schedule"], job["timeZone"]) == ("*/30 * * * *", "Europe/Berlin")
    assert job["concurrencyPolicy"] == "Forbid" and job["jobTemplate"]["spec"]["backoffLimit"] == 0
    one = container(sets["cronjob"], "maintain")
    assert one["command"] == ["lithify-maintain"]
    assert one["args"][:3] == ["run-once", "--config=/etc/lithify/lithify.toml", "--scheduled"]
    assert pod(sets["cronjob"], "maintain")["restartPolicy"] == "Never"
    assert sets["cronjob"]["PersistentVolumeClaim", "keeper-maintain"]["spec"] == {
        "accessModes": ["ReadWriteOnce"], "storageClassName": "fast",
        "resources": {"requests": {"storage": "1Gi"}}}
    assert "runAsUser" not in pod(sets["cronjob"], "maintain")["securityContext"]


def test_disruption_budgets(sets):
    budgets = {name: resource["spec"]["maxUnavailable"]
               for (kind, name), resource in sets["apart"].items() if kind == "PodDisruptionBudget"}
    assert budgets == {"demo-lithify-server": 1, "demo-lithify-worker": "25%"}
    # No budget keeps a node from being emptied for ever: maintenance has one pod, and no budget.
    assert "PodDisruptionBudget" not in {kind for kind, _ in sets["server_only"]}


def test_images(sets):
    assert container(sets["apart"], "worker")["image"] == "lithify:0.1.0"
    assert container(sets["together"], "server")["image"] == (
        "registry.example/data/lithify@sha256:"
        "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef")
    assert pod(sets["together"], "server")["imagePullSecrets"] == [{"name": "pull"}]


def test_a_changed_configuration_starts_pods_anew(render, sets):
    changed = render("apart", "worker.threads=7")
    before, after = (template_of(resources["Deployment", "demo-lithify-worker"])["metadata"]
                     for resources in (sets["apart"], changed))
    assert before["labels"] == after["labels"] and before["annotations"] != after["annotations"]


def test_schema_of_values_is_complete():
    """Every value has a rule in the schema, so that a misspelt one is refused."""
    import yaml
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    schema = json.loads((CHART / "values.schema.json").read_text())

    def compare(told, rule, path):
        properties = rule.get("properties")
        if not isinstance(told, dict) or properties is None:
            return
        assert rule["additionalProperties"] is False, path
        assert set(told) == set(properties) - {"global"}, path
        for key in told:
            compare(told[key], properties[key], f"{path}.{key}")
    compare(values, schema, "values")


@pytest.mark.parametrize("form", ["apart", "cronjob"])
def test_plain_manifests_are_those_of_the_chart(helm, form):
    """deploy/kubernetes/ is rendered by tests/deploy/render.sh."""
    text = helm("template", "lithify", CHART, "--namespace", "lithify",
                "--values", HERE / "values" / f"{form}.yaml")
    rendered = resources_of("\n".join(line.rstrip() for line in text.splitlines()))
    plain = resources_of((ROOT / "deploy" / "kubernetes" / f"{form}.yaml").read_text())
    for labels in labels_in(list(rendered.values())):
        if labels.pop("helm.sh/chart", None):
            labels["app.kubernetes.io/managed-by"] = "kubectl"
    assert plain == rendered


def labels_in(value):
    if isinstance(value, dict):
        for key, part in value.items():
            if key == "labels":
                yield part
            yield from labels_in(part)
    elif isinstance(value, list):
        for part in value:
            yield from labels_in(part)
