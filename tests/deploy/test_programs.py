"""The real programs, where they are built, with what the chart gives them: arguments and
configurations are accepted, and they run as Kubernetes would run them."""

import json
import os
import pathlib
import re
import subprocess
import sys

import pytest
from conftest import HERE, ROOT, SETS
from test_chart import container, pod

BUILT = pathlib.Path(os.environ.get("LITHIFY_BIN", ROOT / "build" / "bin" / "lithify")).parent
COMPONENTS = [(name, component) for name in SETS for component in ("server", "maintain", "worker")
              if (name, component) not in (("together", "maintain"), ("cronjob", "server"),
                                           ("server_only", "maintain"), ("server_only", "worker"))]
CONFIG = '[catalogs.lake]\nuri = "https://polaris.example/"\n'


def program_of(one):
    program = BUILT / one["command"][0]
    if not os.access(program, os.X_OK):
        pytest.skip(f"SKIP: {program.name} is not built")
    return program


def arguments_of(one):
    if os.access(BUILT / "lithify-worker", os.X_OK):
        return one["args"]
    # A build without the fleet knows no [fleet] either.
    return [argument for argument in one["args"] if not argument.startswith("--set=fleet.")]


def config_of(resources, component):
    """(file name, text) of what is mounted at /etc/lithify."""
    file = "worker.toml" if component == "worker" else "lithify.toml"
    found = [resource["data"][file] for (kind, _), resource in resources.items()
             if kind == "ConfigMap" and file in resource["data"]]
    return file, found[0] if found else CONFIG


def make_secret(folder, group):
    """The files of any secret that the chart mounts, with the mode and group that it asks for."""
    folder.mkdir(parents=True)
    for file in ("secret", "client-secret"):
        (folder / file).write_text("0123456789abcdef0123456789abcdef")
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
                    "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj", "/CN=localhost",
                    "-addext", "subjectAltName=DNS:localhost", "-keyout", folder / "tls.key",
                    "-out", folder / "tls.crt"], check=True, capture_output=True)
    (folder / "ca.crt").write_text((folder / "tls.crt").read_text())
    for file in folder.iterdir():
        os.chown(file, os.getuid(), group)
        file.chmod(0o440)


@pytest.mark.parametrize("name, component", COMPONENTS)
def test_arguments_are_accepted(sets, name, component, tmp_path):
    """--check, with all mounts laid out below a directory."""
    one = container(sets[name], component)
    program = program_of(one)
    paths = sorted((mount["mountPath"] for mount in one["volumeMounts"]), key=len, reverse=True)

    def inside(text):
        for path in paths:
            if text == path or text.startswith(path + "/"):
                return str(tmp_path / path[1:]) + text[len(path):]
        return text
    for path in paths:
        if path.startswith("/run/secrets/"):
            make_secret(tmp_path / path[1:], os.getgid())
        else:
            (tmp_path / path[1:]).mkdir(parents=True)
    file, config = config_of(sets[name], component)
    config = re.sub('"(/[^"]*)"', lambda found: f'"{inside(found[1])}"', config)
    (tmp_path / "etc" / "lithify" / file).write_text(config)
    arguments = []
    for argument in arguments_of(one):
        before, equals, value = argument.rpartition("=")
        if argument not in ("run-once", "--scheduled"):
            arguments.append(before + equals + inside(value))
    env = {variable["name"]: inside(variable.get("value", "x" * 40)) for variable in one["env"]}
    done = subprocess.run([program, *arguments, "--check"], capture_output=True, text=True,
                          check=False, timeout=60, env={"PATH": os.environ["PATH"], **env})
    assert done.returncode == 0, done.stdout + done.stderr


def probe_of(one):
    """What asks as the readiness probe does; None: there is none, or it needs a cluster."""
    probe = one.get("readinessProbe", {})
    if "httpGet" not in probe:
        return probe.get("exec", {}).get("command")
    port, = [port["containerPort"] for port in one["ports"]
             if port["name"] == probe["httpGet"]["port"]]
    return ["curl", "-fsS", "--max-time", str(probe["timeoutSeconds"]),
            f"http://127.0.0.1:{port}{probe['httpGet']['path']}"]


def run_as_in_a_pod(resources, component, tmp_path, secrets_group=None):
    """What pod.py says of it, and what the program said."""
    one, spec = container(resources, component), pod(resources, component)
    program_of(one)
    context = spec["securityContext"]
    file, config = config_of(resources, component)
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / file).write_text(config)
    tmp_path.chmod(0o755)
    kinds = {volume["name"]: volume for volume in spec["volumes"]}
    mounts = []
    for mount in one["volumeMounts"]:
        volume = kinds.get(mount["name"], {})  # Else one that a claim makes.
        source = None
        if "configMap" in volume:
            source = str(tmp_path / "config")
        if "secret" in volume:
            source = str(tmp_path / mount["name"])
            make_secret(pathlib.Path(source), secrets_group or context["fsGroup"])
        assert (source is not None) == mount.get("readOnly", False)
        mounts.append({"path": mount["mountPath"], "source": source})
    linked = subprocess.run(["ldd", *BUILT.glob("lithify*")], capture_output=True, text=True,
                            check=True).stdout
    libraries = sorted({os.path.dirname(path) for path in re.findall("=> (/.*) ", linked)
                        if not path.startswith(("/lib/", "/usr/"))})
    (tmp_path / "spec.json").write_text(json.dumps({
        "mounts": mounts, "user": context["runAsUser"], "group": context["runAsGroup"],
        "fs_group": context["fsGroup"], "programs": str(BUILT), "libraries": libraries,
        "env": {variable["name"]: variable.get("value", "x" * 40) for variable in one["env"]},
        "command": [*one["command"], *arguments_of(one)],
        "probe": probe_of(one)}))
    done = subprocess.run(
        ["unshare", "--mount", "--net", "--pid", "--fork", "--kill-child", sys.executable,
         HERE / "pod.py", tmp_path / "spec.json"], capture_output=True, text=True, timeout=180,
        check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout), done.stderr


namespaces = pytest.mark.skipif(os.getuid() != 0, reason="SKIP: namespaces are root's to make")


@namespaces
@pytest.mark.parametrize("name, component", [
    ("apart", "server"), ("apart", "maintain"), ("apart", "worker"), ("together", "worker"),
    ("server_only", "server")])
def test_runs_in_its_pod(sets, name, component, tmp_path):
    """With a read-only root, as nobody in particular, without a capability: it becomes ready by its
    own probe, and ends in time when it is told to."""
    told, log = run_as_in_a_pod(sets[name], component, tmp_path)
    ready = 0 if probe_of(container(sets[name], component)) else None
    assert told == {"ready": ready, "writes": [], "exit": 0}, log


@namespaces
def test_does_not_run_where_it_may_not_read(sets, tmp_path):
    """The control: what the pod gives it is what it needs."""
    told, log = run_as_in_a_pod(sets["apart"], "server", tmp_path, secrets_group=10999)
    assert told["ready"] != 0 and told["exit"] != 0 and "cannot be read" in log
