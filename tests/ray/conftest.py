"""Fixtures of the tests of lithify-ray: Ray clusters of several nodes on loopback addresses.

test_policy.py and test_keeper.py need no Ray; the others run in ./dev check ray. No process
outlives the tests: all of them carry a mark in their environment, by which they are found.
"""

import os
import pathlib
import secrets
import signal
import sys
import tempfile
import time

import pytest

HERE = pathlib.Path(__file__).parent
PACKAGE = HERE.parents[1] / "python" / "lithify-ray" / "src"
REAL = pathlib.Path(os.environ.get("LITHIFY_WORKER_BIN")
                    or HERE.parents[1] / "build" / "bin" / "lithify-worker")
MARK = "LITHIFY_RAY_TEST"
sys.path.insert(0, str(PACKAGE))
os.environ.update({
    "PYTHONPATH": str(PACKAGE), "RAY_USAGE_STATS_ENABLED": "0", "RAY_DEDUP_LOGS": "0",
    # Nodes that are killed are noticed sooner.
    "RAY_health_check_initial_delay_ms": "1000", "RAY_health_check_period_ms": "500",
    "RAY_health_check_timeout_ms": "2000", "RAY_health_check_failure_threshold": "4"})

BINARIES = ["stand-in"] + (["lithify-worker"] if os.access(REAL, os.X_OK) else [])


def wait_until(what, holds, seconds=60):
    """What holds() returns, once it is true; fails with `what` if that takes too long."""
    end = time.monotonic() + seconds
    while True:
        value = holds()
        if value:
            return value
        if time.monotonic() > end:
            pytest.fail(f"not within {seconds} s: {what}")
        time.sleep(0.1)


def is_alive(pid):
    """False also for one that only waits for its parent to look."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii") as file:
            return file.read().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def marked(mark):
    """The processes, besides this one, that were started with the mark in their environment."""
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit() and int(entry) != os.getpid() and is_alive(int(entry)):
            try:
                with open(f"/proc/{entry}/environ", "rb") as file:
                    if f"{MARK}={mark}".encode() in file.read().split(b"\0"):
                        found.append(int(entry))
            except OSError:
                pass
    return found


@pytest.fixture(scope="session", autouse=True)
def nothing_left():
    mark = secrets.token_hex(8)
    os.environ[MARK] = mark
    yield mark
    end = time.monotonic() + 20
    while marked(mark) and time.monotonic() < end:
        time.sleep(0.2)
    left = marked(mark)
    lines = []
    for pid in left:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            lines.append(f"{pid} {file.read().replace(bytes(1), b' ').decode()[:200]}")
        os.kill(pid, signal.SIGKILL)
    assert not left, "left behind:\n" + "\n".join(lines)


@pytest.fixture(params=BINARIES)
def binary(request):
    return str(HERE / "stand_in_worker.py") if request.param == "stand-in" else str(REAL)


@pytest.fixture(scope="session")
def secret():
    return secrets.token_hex(24)


@pytest.fixture
def config(tmp_path, secret):
    """Writes the worker's configuration and returns its path."""
    secret_file = tmp_path / "secret"
    secret_file.touch(mode=0o600)
    secret_file.write_text(secret)

    def write(more="", source=f'secret_file = "{secret_file}"', tls="insecure_loopback = true"):
        path = tmp_path / "worker.toml"
        path.write_text(f"[worker]\n{source}\n{tls}\n{more}")
        return str(path)
    return write


@pytest.fixture(scope="module")
def cluster():
    """A Ray cluster: a head without room for workers, and two nodes with room for two each. A test
    that takes one away gives another."""
    from ray_cluster import RayCluster
    # Paths of sockets must be short.
    with tempfile.TemporaryDirectory(prefix="lr-", dir="/tmp", ignore_cleanup_errors=True
                                     ) as directory, RayCluster(directory) as made:
        made.add_node()
        made.add_node()
        yield made


@pytest.fixture
def harness(cluster, tmp_path, binary, config):
    """Makes fleets of the cluster; each is closed in the end, which leaves nothing of it."""
    from fleet_harness import Harness
    from lithify_ray.fleet import fleet_members
    made = []

    def make(low, high, more="", **settings):
        made.append(Harness(tmp_path, binary, config(more=more), low, high, **settings))
        return made[-1]
    yield make
    for harness in made:
        harness.fleet.close()
        assert harness.published() == {} and fleet_members("test") == []
