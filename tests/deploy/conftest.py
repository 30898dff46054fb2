"""Fixtures of the tests of deploy/: the chart as Helm renders it. Run by ./dev check deploy."""

import os
import pathlib
import subprocess

import pytest
import yaml

HERE = pathlib.Path(__file__).parent
ROOT = HERE.parents[1]
CHART = ROOT / "deploy" / "helm" / "lithify"
SETS = ("apart", "together", "cronjob", "server_only")


@pytest.fixture(scope="session")
def helm(tmp_path_factory):
    """Runs Helm with these arguments, in a home of its own."""
    home = tmp_path_factory.mktemp("helm")
    program = subprocess.run(["bash", str(HERE / "helm.sh")], stdout=subprocess.PIPE, text=True,
                             check=True, stdin=subprocess.DEVNULL).stdout.strip()
    names = ("HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME")
    env = {**os.environ, "KUBECONFIG": str(home / "none"), **{name: str(home) for name in names}}

    def run(*arguments, ok=True):
        done = subprocess.run([program, *map(str, arguments)], capture_output=True, text=True,
                              check=False, env=env, timeout=120, stdin=subprocess.DEVNULL)
        assert (done.returncode == 0) == ok, done.stdout + done.stderr
        return done.stdout if ok else done.stderr
    return run


@pytest.fixture(scope="session")
def render(helm):
    """The resources of a set of values, by (kind, name); more arguments as `--set`."""
    def run(values, *sets):
        text = helm("template", "demo", CHART, "--namespace", "lake",
                    "--values", HERE / "values" / f"{values}.yaml",
                    *(part for one in sets for part in ("--set", one)))
        return resources_of(text)
    return run


def resources_of(text):
    found = {}
    for resource in yaml.safe_load_all(text):
        if resource:
            key = resource["kind"], resource["metadata"]["name"]
            assert key not in found, key
            found[key] = resource
    return found


@pytest.fixture(scope="session")
def sets(render):
    return {name: render(name) for name in SETS}
