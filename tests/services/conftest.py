"""Fixtures of the tests against real services: each service is started once and stopped by its
process id; the binary under test is the real one."""

import itertools
import os
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "e2e"))

import cli  # noqa: E402
import tree as trees  # noqa: E402
from pyiceberg.catalog.rest import RestCatalog  # noqa: E402

import hosts  # noqa: E402
from fleet_network import Network  # noqa: E402
from granting import granting  # noqa: E402, F401  A fixture.
from maintaining import identities, judged  # noqa: E402, F401  Fixtures.
from proxy import Proxy  # noqa: E402
from rest_lake import RestLake  # noqa: E402
from service_script import run_script  # noqa: E402

numbers = itertools.count()


def pytest_configure(config):
    if not os.access(cli.BINARY, os.X_OK):
        raise pytest.UsageError(f"no binary at {cli.BINARY}: run ./dev build, or set LITHIFY_BIN")


@pytest.fixture(scope="session")
def service(tmp_path_factory):
    """The address of Iceberg's own REST servlet."""
    directory = tmp_path_factory.mktemp("rest")
    uri = run_script("iceberg_rest.sh", "start", directory)
    yield uri
    run_script("iceberg_rest.sh", "stop", directory)


@pytest.fixture
def proxy(service):
    with Proxy(service) as proxy:
        yield proxy


@pytest.fixture
def home(tmp_path):
    """Where lithify keeps its state, like the audit log of a REST catalog."""
    return tmp_path / "state"


@pytest.fixture
def catalog(service):
    return RestCatalog("lake", uri=service)


@pytest.fixture
def lake(catalog, proxy, home):
    """A namespace of its own; lithify goes through the proxy."""
    return RestLake(catalog, proxy.uri, (f"sales{next(numbers)}",),
                    {"XDG_STATE_HOME": str(home)})


@pytest.fixture(scope="session")
def s3_service(tmp_path_factory):
    """The endpoint of a real S3 server with the bucket `lake`. LITHIFY_S3_SERVER: its script."""
    script = os.environ.get("LITHIFY_S3_SERVER", "seaweedfs") + ".sh"
    directory = tmp_path_factory.mktemp("s3")
    endpoint = run_script(script, "start", directory)
    yield endpoint
    run_script(script, "stop", directory)


@pytest.fixture
def tree(tmp_path):
    """An empty tree with the layout of the preset `ourios`, on disk."""
    return trees.Tree(tmp_path / "lake")


@pytest.fixture(scope="session")
def s3_catalog(tmp_path_factory):
    """The endpoint of an S3 server, and the URI of its REST catalog, which lends credentials."""
    directory = tmp_path_factory.mktemp("s3-catalog")
    lines = run_script("seaweedfs.sh", "start", directory, "catalog").splitlines()
    yield lines
    run_script("seaweedfs.sh", "stop", directory)


@pytest.fixture(scope="session")
def network(tmp_path_factory):
    """Hosts for a fleet: network namespaces, for which one must be root."""
    if why := hosts.available():
        pytest.skip(f"no network namespaces here: {why}")
    made = Network(tmp_path_factory.mktemp("network"))
    yield made
    made.close()
