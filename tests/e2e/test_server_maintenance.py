"""What the scheduler decides by, for callers of the server: CALL system.run_maintenance and
system.maintenance_plan, always as the caller."""

import cli
import pytest
import server as servers

pytestmark = pytest.mark.local_disk("a server takes no keys of its own, and SQLite lends none")


# A table that was written a moment ago looks as if it were written all the time.
TOMORROW = {"LD_PRELOAD": str(cli.REPOSITORY / "build" / "tests" / "clock_ahead.so"),
            "CLOCK_AHEAD_SECONDS": "86400"}


@pytest.fixture
def served(lake, tmp_path):
    server = servers.Server(tmp_path / "server", servers.lake_config(lake), env=TOMORROW)
    yield server
    server.stop(code=None)


def opt_in(lake, name):
    with lake.load(name).transaction() as change:
        change.set_properties({"sqe.maintenance.enabled": "true"})


def large(lake, name, files=150):
    """Enough small files that merging them pays."""
    lake.plain(name, files=1)
    data = lake.load(name).scan().to_arrow()
    table = lake.load(name)
    with table.transaction() as change:
        for _ in range(files):
            change.append(data)
    return lake.rows(name)


def test_the_plan_has_each_candidate_with_its_number(lake, served):
    large(lake, "much")
    lake.plain("little", files=2)
    lake.plain("others", files=6)
    opt_in(lake, "much")
    opt_in(lake, "little")
    before = {name: lake.tree(name) for name in ("much", "little", "others")}
    plan = served.rows("SELECT * FROM system.maintenance_plan")
    assert {row["name"] for row in plan} == {"much", "little"}
    by_name = {row["name"]: row for row in plan}
    assert by_name["much"]["files"] == 151 and by_name["much"]["rank"] == 1
    assert by_name["much"]["verdict"] == "run" and by_name["much"]["score"] > 1
    assert by_name["little"]["verdict"] == "nothing_planned" and by_name["little"]["rank"] is None
    (count,) = served.rows("SELECT count(*) AS n FROM system.maintenance_plan WHERE score > 0")
    assert count["n"] == 1
    assert {name: lake.tree(name) for name in before} == before


def test_a_round_runs_what_is_opted_in_and_worth_it(lake, served):
    rows = large(lake, "much")
    others = lake.plain("others", files=6).metadata_location
    opt_in(lake, "much")
    (planned,) = served.rows("CALL system.run_maintenance(dry_run => true)")
    assert (planned["table"], planned["status"]) == ("sales.much", "planned")
    assert planned["files_rewritten"] == 151 and planned["snapshot_id"] is None
    done = served.rows("CALL system.run_maintenance()")
    assert [(row["table"], row["status"]) for row in done] == [("sales.much", "committed")]
    assert (done[0]["files_rewritten"], done[0]["files_added"]) == (151, 1)
    assert lake.head("much").snapshot_id == done[0]["snapshot_id"]
    assert lake.head("much").summary["lithify.trigger"] == "manual"
    assert lake.rows("much") == rows
    assert lake.metadata_location("others") == others


def test_one_table_that_is_not_opted_in_is_left(lake, served):
    before = lake.plain("t", files=6).metadata_location
    (row,) = served.rows("CALL system.run_maintenance(table => 'sales.t')")
    assert row["status"] == "skipped" and "enabled" in row["reason"]
    assert lake.metadata_location("t") == before
    (row,) = served.rows("EXPLAIN CALL system.run_maintenance(table => 'sales.t')")
    assert row["status"] == "skipped"


def test_without_opted_in_tables_there_is_nothing(lake, served):
    lake.plain("t", files=6)
    assert served.rows("CALL system.run_maintenance()") == []
    assert served.rows("SELECT * FROM system.maintenance_plan") == []
