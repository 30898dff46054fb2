"""The page as one file: of a tree, and of what maintenance saw. In a browser, from the disk, where
nothing can be fetched."""

import datetime
import pathlib
import subprocess

import cli
import pytest
import tree as trees
from browser import PHONE, WIDE
from iceberg_lake import Lake, plain_rows
from test_page import check

SIZES = {"wide": WIDE, "phone": PHONE}
HOUR = datetime.timedelta(hours=1)


@pytest.fixture
def tree(tmp_path):
    """Two tenants over some weeks, one of them named by somebody hostile."""
    made = trees.Tree(tmp_path / "lake")
    for tenant, days, files in (("acme", 40, 3), ("<img src=x onerror=alert(1)>", 12, 9)):
        for day in range(0, days, 2):
            hour = trees.HOUR + datetime.timedelta(days=day)
            for number in range(1 + (files * (day % 7)) // 3):
                made.write(trees.log_table(tenant, hour, 5, seed=number), tenant, hour)
    return made


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("dark", [False, True])
def test_a_tree(page, tree, tmp_path, size, dark):
    status = cli.run("status", tree.root, "--json").json
    out = tmp_path / "status.html"
    assert cli.run("status", tree.root, "--html", out).out == ""
    assert not list(tmp_path.glob("*.part"))
    one = page(SIZES[size], dark)
    one.open(f"file://{out}")
    one.until("document.querySelector('.calendars svg')")
    shown = one.text("main")
    assert f"{status['totals']['live_files']:,}" in shown
    assert one.evaluate("document.querySelectorAll('.calendars svg').length") == 2
    days = one.evaluate("document.querySelectorAll('.calendars rect').length")
    assert days == len({(p["tenant"], p["start"][:10]) for p in status["partitions"]})
    assert one.evaluate("document.querySelectorAll('main img').length") == 0
    check(one, f"tree-{size}{'-dark' if dark else ''}", full=True)
    one.evaluate("location.hash = '#/partitions'")
    one.until("document.querySelector('.body .row')")
    count = one.evaluate("document.querySelector('[role=grid]').getAttribute('aria-rowcount')")
    assert count == str(len(status["partitions"]) + 1)
    check(one, f"tree-partitions-{size}{'-dark' if dark else ''}")
    one.click(".body .row a")
    one.until("document.querySelector('figure svg')")
    check(one, f"tree-partition-{size}{'-dark' if dark else ''}")
    assert len(one.requests) == 1  # The file.


def test_not_both_and_not_anywhere(tree, tmp_path):
    cli.run("status", tree.root, "--html", tmp_path / "x.html", "--json", code=cli.USAGE)
    done = cli.run("status", tree.root, "--html", tmp_path / "none" / "x.html", code=None)
    assert done.code != 0 and "cannot be written" in done.err


@pytest.mark.parametrize("size", SIZES)
def test_maintenance(page, tmp_path, size):
    lake = Lake(tmp_path / "warehouse")
    lake.plain("orders", files=8, properties={"sqe.maintenance.enabled": "true"})
    lake.plain("clicks", files=4)
    lake.append("orders", plain_rows(1000, 5))
    config = tmp_path / "maintain.toml"
    config.write_text(f"""
[catalogs.lake]
uri = "{lake.uri}"
[maintenance]
mode = "active"
[maintenance.scheduler]
quiet_secs = 0
jitter_secs = 0
[maintenance.budget]
gain_percent_min = 0
""")
    program = pathlib.Path(cli.BINARY).parent / "lithify-maintain"
    out = tmp_path / "maintenance.html"
    for args in (["run-once"], ["status", "--html", out]):
        subprocess.run([program, *args, "--config", config], capture_output=True, timeout=120,
                       check=True,
                       env={**cli.environment(), "XDG_STATE_HOME": str(tmp_path / "state")})
    one = page(SIZES[size])
    one.open(f"file://{out}")
    one.until("document.querySelector('.body .row')")
    check(one, f"maintenance-{size}")
    for view in ("plan", "jobs"):
        one.evaluate(f"location.hash = '#/{view}'")
        one.until("document.querySelector('tbody tr')")
        check(one, f"maintenance-{view}-{size}")
    one.evaluate("location.hash = '#/seen/lake.sales.clicks'")
    one.until("document.querySelector('h1')?.innerText === 'lake.sales.clicks'")
    assert "ALTER TABLE lake.sales.clicks SET TBLPROPERTIES" in one.text("main")
    check(one, f"maintenance-table-{size}")
