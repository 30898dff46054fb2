"""lithifyd before a real REST catalog: advice without any credential (R020, T2)."""

import json
import subprocess
import time

import cli
import pytest
import server as servers

MAINTAIN = servers.PROGRAM.with_name("lithify-maintain")
CALLER = "the-callers-own-token"
CONFIG = """
[server]
local_files = true
[catalogs.lake]
uri = "{uri}"
[maintenance]
mode = "advisory"
[maintenance.scheduler]
tick_secs = 1
"""


@pytest.fixture
def daemon(lake, proxy, tmp_path):
    proxy.token = CALLER
    daemon = servers.Server(tmp_path / "server", CONFIG.format(uri=proxy.uri),
                            program=servers.DAEMON)
    yield daemon
    daemon.stop(code=None)


def maintain(daemon, *args, json_=True, state=None):
    parts = [MAINTAIN, *args, "--config", daemon.config, *(["--json"] if json_ else [])]
    return subprocess.run(parts, capture_output=True, text=True, timeout=60, check=False,
                          env={**cli.environment(None),
                               "XDG_STATE_HOME": str(state or daemon.directory / "state")})


def wait_for_status(daemon, holds, seconds=30):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        done = maintain(daemon, "status")
        if done.returncode == 0 and holds(json.loads(done.stdout)):
            return json.loads(done.stdout)
        time.sleep(0.2)
    raise AssertionError(done.stdout + done.stderr)


def by_table(status):
    return {table["table"].rpartition(".")[2]: table for table in status["tables"]}


def test_what_callers_touch_is_known_and_nothing_else(lake, proxy, daemon):
    for name, files in (("read", 6), ("asked", 4), ("untouched", 5)):
        lake.plain(name, files=files)
    with lake.load("asked").transaction() as change:
        change.set_properties({"sqe.maintenance.enabled": "true"})
    schema = ".".join(lake.namespace)
    status = wait_for_status(daemon, lambda status: True)
    # It has been at work, without one request.
    assert status["tables"] == [] and not status["loud"] and status["error"] is None
    assert proxy.calls == []
    assert "only tables that callers" in status["limits"] and status["principal"] == ""

    assert daemon.row(f"SELECT count(*) AS n FROM {schema}.read", token=CALLER)["n"] == 60
    daemon.row(f"CALL system.table_health(table => '{schema}.asked')", token=CALLER)
    status = wait_for_status(daemon, lambda status: len(status["tables"]) == 2)
    tables = by_table(status)
    read, asked = tables["read"], tables["asked"]
    assert (read["gate"], asked["gate"]) == ("not_opted_in", "opted_in")
    assert (read["data_files"], asked["data_files"], read["delete_files"]) == (6, 4, 0)
    head = lake.head("read").summary
    assert read["file_bytes_average"] == int(head["total-files-size"]) // 6
    # It is in no summary: not known, and not 0.
    assert "small_files" not in read and "seen" in read
    gauges = {(m["name"], m["attributes"].get("lithify.table")): m["value"]
              for m in status["metrics"]}
    assert gauges["lithify.table.data_files", f"lake.{schema}.read"] == 6
    # What a person sees says it, too.
    text = maintain(daemon, "status", json_=False).stdout
    assert "only tables that callers of this process have touched" in text
    assert "as nobody" in text and "not known" in text and f"lake.{schema}.read" in text

    # What a caller sees later is what is known later.
    lake.append("read", [{"id": 1, "region": "eu", "note": None}])
    daemon.row(f"SELECT count(*) AS n FROM {schema}.read", token=CALLER)
    wait_for_status(daemon, lambda status: by_table(status)["read"]["data_files"] == 7)
    # Every request was a caller's.
    assert proxy.calls
    assert {call.headers["Authorization"] for call in proxy.calls} == {f"Bearer {CALLER}"}


def test_a_process_without_callers_asks_nobody(lake, proxy, daemon, tmp_path):
    """lithify-maintain alone: it has nobody's right, and says that it knows nothing."""
    lake.plain("t", files=6)
    done = maintain(daemon, "run-once", state=tmp_path / "other")
    report = json.loads(done.stdout)
    assert done.returncode == 0 and report["tables"] == []
    assert "nothing is known" in report["limits"]
    # Nor does it take the place of what the other process knows.
    daemon.row(f"SELECT count(*) AS n FROM {'.'.join(lake.namespace)}.t", token=CALLER)
    wait_for_status(daemon, lambda status: len(status["tables"]) == 1)
    maintain(daemon, "run-once")
    assert len(json.loads(maintain(daemon, "status").stdout)["tables"]) == 1
    assert {call.headers["Authorization"] for call in proxy.calls} == {f"Bearer {CALLER}"}
