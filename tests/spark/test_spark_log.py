"""The maintenance log as Spark makes it from our statement, and as it reads and writes ours."""

import json
import pathlib
import subprocess
import time

import cli
import pytest

TOOL = pathlib.Path(cli.BINARY).resolve().parents[1] / "tests" / "lease_tool"
LOG = "lake.sqe_system.maintenance_log"
KEY = "lake.sales.orders"


def tool(lake, holder, *args):
    process = subprocess.run([TOOL, f"sqlite:///{lake.db}", holder, *map(str, args)], check=False,
                             capture_output=True, text=True, timeout=120, env=cli.environment())
    assert process.returncode == 0, process.stderr
    return json.loads(process.stdout)


def init(lake, *args):
    return cli.run("init-state", "lake", "--catalog-uri", f"sqlite:///{lake.db}", *args)


def forget(lake):
    lake.sql(f"DROP TABLE IF EXISTS {LOG} PURGE")
    lake.sql("CREATE NAMESPACE IF NOT EXISTS lake.sqe_system")


@pytest.mark.parametrize("maker", ["spark", "lithify"])
def test_either_makes_what_both_use(lake, maker):
    forget(lake)
    if maker == "spark":
        lake.sql(init(lake, "--ddl").out.strip().rstrip(";"))
        assert json.loads(init(lake, "--json").out)["status"] == "exists"
    else:
        location = f"file://{lake.root}/warehouse/log-{time.time_ns()}"
        assert json.loads(init(lake, "--json", "--location", location).out)["status"] == "created"
    described = {row[0]: row[1] for row in lake.sql(f"DESCRIBE TABLE {LOG}")}
    assert (described["trigger"], described["finished_at_ms"]) == ("string", "bigint")
    assert (described["Part 0"], described["Part 1"]) == (
        "trigger", "truncate(86400000, finished_at_ms)")

    tool(lake, "me", "append", 5)
    assert [tuple(row) for row in lake.sql(
        f"SELECT job_id, status, files_in, snapshot_id, error FROM {LOG} ORDER BY job_id")] == [
            (f"job-{n}", "failed" if n % 2 else "success", n, None if n % 2 else n + 5,
             f'why "{n}"' if n % 2 else None) for n in range(5)]

    assert tool(lake, "me", "claim", KEY, 300)["kind"] == "acquired"
    holder, = lake.sql(f"SELECT principal FROM {LOG} WHERE `trigger` = 'lease'")
    assert holder[0] == "me"
    # A claim of another coordinator, written by Spark.
    now = int(time.time() * 1000)
    lake.sql(f"INSERT INTO {LOG} VALUES ('theirs', 'lake.sales.other', 'lease', 'other-1', {now}, "
             f"{now + 600000}, 'claimed', 0, 0, 0, 0, 0, NULL, NULL)")
    assert tool(lake, "me", "claim", "lake.sales.other", 300)["holder"] == "other-1"
    assert tool(lake, "me", "compact")["files_rewritten"] >= 2
    assert lake.sql(f"SELECT count(*) FROM {LOG}")[0][0] == 7
    assert tool(lake, "you", "claim", KEY, 300)["holder"] == "me"
    # What docs/FORMATS.md says of old days: whole files go.
    lake.sql(f"DELETE FROM {LOG} WHERE `trigger` = 'scheduled'")
    assert lake.sql(f"SELECT count(*) FROM {LOG}")[0][0] == 2
    assert tool(lake, "you", "claim", KEY, 300)["holder"] == "me"
