"""The maintenance log behind a real REST catalog: made, written and claimed by lithify, read by
pyiceberg; replies that are lost on the way."""

import itertools
import json
import pathlib
import subprocess

import cli
import pytest
from proxy import error, lose_reply, lose_request

TOOL = pathlib.Path(cli.BINARY).resolve().parents[1] / "tests" / "lease_tool"
LOG = ("sqe_system", "maintenance_log")
keys = (f"lake.claimed.t{n}" for n in itertools.count())


@pytest.fixture
def log(catalog, proxy, home):
    env = {"XDG_STATE_HOME": str(home)}
    cli.run("init-state", "lake", "--catalog-uri", proxy.uri, "--json", env=env)

    def tool(holder, *args, code=0):
        process = subprocess.run([TOOL, proxy.uri, holder, *map(str, args)], check=False,
                                 capture_output=True, text=True, timeout=120,
                                 env=cli.environment(env))
        assert process.returncode == code, process.stderr
        return json.loads(process.stdout) if code == 0 else process.stderr

    tool.rows = lambda: catalog.load_table(LOG).scan().to_arrow().to_pylist()
    tool.claims = lambda key: [row for row in tool.rows() if row["table_name"] == key]
    return tool


def test_init_state(catalog, proxy, home):
    env = {"XDG_STATE_HOME": str(home)}
    result = cli.run("init-state", "lake.other.log", "--catalog-uri", proxy.uri, "--json",
                     env=env).json
    # This server makes a table also in a namespace that is not there.
    assert result["status"] == "created"
    table = catalog.load_table(("other", "log"))
    assert result["location"] == table.location()
    assert [str(field.transform) for field in table.spec().fields] == [
        "identity", "truncate[86400000]"]
    assert table.metadata.format_version == 2
    again = cli.run("init-state", "lake.other.log", "--catalog-uri", proxy.uri, "--json",
                    env=env).json
    assert (again["status"], again["namespace_created"]) == ("exists", False)


def test_rows(log):
    before = len(log.rows())
    log("me", "append", 5)
    assert len(log.rows()) == before + 5
    assert {row["job_id"] for row in log.rows()} >= {f"job-{n}" for n in range(5)}
    assert log("me", "rows") == {"rows": before + 5}


def test_leases(log):
    key = next(keys)
    claim = log("me", "claim", key, 300)
    assert claim["kind"] == "acquired"
    row, = log.claims(key)
    assert (row["job_id"], row["principal"], row["status"]) == (claim["id"], "me", "claimed")
    assert log("you", "claim", key, 300)["holder"] == "me"
    log("me", "release", key)
    assert log("you", "claim", key, 300)["kind"] == "acquired"


@pytest.mark.parametrize("fault", [lose_reply, lose_request], ids=["reply", "request"])
def test_a_claim_whose_answer_is_lost_is_one_claim(log, proxy, fault):
    key = next(keys)
    proxy.commits = [fault]
    assert log("me", "claim", key, 300)["kind"] == "acquired"
    assert len(log.claims(key)) == 1
    assert log("you", "claim", key, 300)["kind"] == "held"


def test_a_refusal_is_the_callers_to_pass_over(log, proxy):
    key = next(keys)
    proxy.commits = [error(403, "ForbiddenException", "TABLE_WRITE_DATA is missing")]
    assert "TABLE_WRITE_DATA is missing" in log("me", "claim", key, 300, code=1)
    assert log.claims(key) == []
