"""lithifyd: both halves in one process. What each half does is tested with its own program; here is
what they are together, and what is not there."""

import collections
import json
import os
import pathlib
import re
import signal
import subprocess
import time

import cli
import pytest
import server as servers
from iceberg_lake import Lake

pytestmark = pytest.mark.local_disk("a server takes no keys of its own, and SQLite lends none")

MAINTENANCE = """
[maintenance]
mode = "{mode}"
[maintenance.scheduler]
tick_secs = 1
quiet_secs = 0
jitter_secs = 0
on_change = true
[maintenance.budget]
gain_percent_min = 0
"""
REST = """
[auth]
client_id = "callers"
[catalogs.rest]
uri = "https://catalog.example/"
[maintenance]
mode = "{mode}"
"""
PRINCIPAL = """
[maintenance.principal]
token_endpoint = "https://login.example/token"
client_id = "{client}"
client_secret = "not-told-to-anybody"
"""


@pytest.fixture
def lake(tmp_path):
    return Lake(tmp_path / "lake")


@pytest.fixture
def start(tmp_path):
    running = []

    def start_one(config, *args, program=servers.DAEMON, **options):
        directory = tmp_path / f"server{len(running)}"
        running.append(servers.Server(directory, config, *args, program=program, **options))
        return running[-1]

    yield start_one
    for server in running:
        server.stop(code=None)


def config_of(lake, mode, more=""):
    return servers.lake_config(lake, MAINTENANCE.format(mode=mode) + more)


def opt_in(lake, name):
    with lake.load(name).transaction() as change:
        change.set_properties({"sqe.maintenance.enabled": "true"})


def wait_until(holds, what, seconds=60):
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, what
        time.sleep(0.05)


# --- mode off ------------------------------------------------------------------------------------

def held_by(server):
    """What the process has: threads by name, open descriptors by kind, files that it made."""
    process = pathlib.Path("/proc") / str(server.process.pid)
    own = process.joinpath("comm").read_text()
    threads = collections.Counter()
    for task in process.joinpath("task").iterdir():
        name = task.joinpath("comm").read_text()
        threads["own" if name == own else name] += 1
    descriptors = collections.Counter()
    for entry in process.joinpath("fd").iterdir():
        target = re.sub(r"\[\d+\]", "", os.readlink(entry))
        descriptors[target.replace(str(server.directory), "")] += 1
    files = {path.relative_to(server.directory) for path in server.directory.rglob("*")}
    return threads, descriptors, files


def come_to_be_equal(one, other, seconds=20):
    """Whether two idle servers hold the same, once the pools of their transport have settled."""
    end = time.monotonic() + seconds
    while held_by(one) != held_by(other):
        if time.monotonic() > end:
            return False
        time.sleep(0.1)
    return True


def test_mode_off_constructs_nothing(lake, start):
    """R011: no thread, no socket, no file more than the server alone."""
    lake.plain(files=3)
    config = config_of(lake, "off")
    alone = start(config, program=servers.PROGRAM)
    both = start(config)
    for server in (alone, both):
        assert server.row("SELECT count(*) AS n FROM sales.t")["n"] == 30
    assert come_to_be_equal(alone, both), (held_by(alone), held_by(both))
    # The control: what is there is seen.
    advised = start(config_of(lake, "advisory"))
    assert advised.row("SELECT count(*) AS n FROM sales.t")["n"] == 30
    wait_until(lambda: held_by(advised)[2] - held_by(alone)[2], "no status was written")
    assert not come_to_be_equal(alone, advised, seconds=3)
    assert sum(held_by(advised)[0].values()) > sum(held_by(alone)[0].values())


# --- starting ------------------------------------------------------------------------------------

def checked(tmp_path, config, *args, code=0):
    path = tmp_path / "lithify.toml"
    path.write_text(config)
    done = subprocess.run([servers.DAEMON, "--config", path, *args], capture_output=True,
                          text=True, timeout=60, check=False,
                          env={**os.environ, "XDG_STATE_HOME": str(tmp_path / "state")})
    assert done.returncode == code, done.stdout + done.stderr
    assert "not-told-to-anybody" not in done.stdout + done.stderr
    return done.stderr


def test_active_needs_a_principal(tmp_path):
    """R006, R283: without --check, and before it listens."""
    for args in (["--check"], []):
        error = checked(tmp_path, REST.format(mode="active"), *args, code=cli.USAGE)
        assert "maintenance.principal: is needed" in error
    assert not (tmp_path / "state").exists()
    checked(tmp_path, REST.format(mode="active") + PRINCIPAL.format(client="lithify"), "--check")


def test_advisory_needs_none(tmp_path):
    """R020, T2."""
    error = checked(tmp_path, REST.format(mode="advisory"), "--check")
    assert "warning" in error and "that callers of a server in this process have touched" in error


def test_one_client_for_both_is_warned_of(tmp_path):
    """R007, R284."""
    config = REST.format(mode="active")
    error = checked(tmp_path, config + PRINCIPAL.format(client="callers"), "--check")
    assert "warning" in error and "is that of [auth], too" in error
    assert "warning" not in checked(tmp_path, config + PRINCIPAL.format(client="other"), "--check")


def test_each_half_has_its_own_configuration(lake, start, tmp_path):
    """What is set for one on the command line goes to that one, and a typing error to nobody."""
    server = start(config_of(lake, "active"), "--set", "maintenance.mode=off",
                   "--set", "server.drain=2s")
    server.process.send_signal(signal.SIGTERM)
    assert server.process.stdout.read() == ""  # It maintains nothing.
    server.stop()
    error = checked(tmp_path, config_of(lake, "off"), "--set", "maintenance.moed=off",
                    code=cli.USAGE)
    assert "maintenance.moed" in error


# --- both at once --------------------------------------------------------------------------------

def test_it_serves_and_maintains(lake, start):
    lake.plain("mine", files=6)
    lake.plain("others", files=6)
    opt_in(lake, "mine")
    server = start(config_of(lake, "active"))
    assert server.process.stdout.readline() == "lithify maintains lake, mode active\n"
    wait_until(lambda: len(lake.data_entries("mine")) == 1, "mine was not compacted")
    assert len(lake.data_entries("others")) == 6
    assert server.row("SELECT count(*) AS n FROM sales.mine")["n"] == 60
    health = server.rows("SELECT name, small_files FROM system.table_health ORDER BY name")
    assert health == [{"name": "mine", "small_files": 1}, {"name": "others", "small_files": 6}]
    # No caller sees or stops what is not theirs.
    assert server.rows("SELECT * FROM system.jobs") == []
    server.stop()
    records = [event for event in server.audited() if event["kind"] == "maintenance"]
    assert records == []
    own = server.audit_log.with_name("maintenance.audit.jsonl")
    assert cli.run("audit", "verify", own, "--json").json["ok"] is True
    phases = [json.loads(line).get("phase") for line in own.read_text().splitlines()]
    assert "committed" in phases


def test_a_signal_stops_both(lake, start):
    """A job is given up, and nothing of it stays; who was served is served to the end."""
    lake.plain(files=30)
    opt_in(lake, "t")
    before, known = lake.metadata_location("t"), lake.tree("t")
    slow = {"LD_PRELOAD": str(cli.REPOSITORY / "build" / "tests" / "slow_read.so"),
            "LITHIFY_SLOW_READ_MS": "200"}
    server = start(config_of(lake, "active", "[limits]\njobs = 1\n"), "--set", "server.drain=1s",
                   env=slow)
    assert lake.wait_for_output("t", server.process, known)
    server.stop(signal.SIGTERM)
    assert lake.metadata_location("t") == before
    assert lake.leftovers("t") == set()


def test_by_the_command_line(tmp_path):
    done = cli.run("daemon", "--help")
    assert "lithifyd" in done.out and "lithify-maintain" in done.out
    done = cli.run("daemon", "--config", str(tmp_path / "none.toml"), code=cli.USAGE)
    assert "none.toml" in done.text
