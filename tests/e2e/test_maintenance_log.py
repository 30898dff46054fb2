"""The maintenance log: made by the binary, written by us and by pyiceberg, read by both."""

import json
import pathlib
import re
import subprocess
import time

import cli
import pyarrow as pa
import pytest
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.expressions import And, EqualTo, GreaterThan
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform, TruncateTransform
from pyiceberg.types import IntegerType, LongType, NestedField, StringType

TOOL = pathlib.Path(cli.BINARY).resolve().parents[1] / "tests" / "lease_tool"
LOG = ("sqe_system", "maintenance_log")
KEY = "lake.sales.orders"
COLUMNS = ["job_id", "table_name", "trigger", "principal", "started_at_ms", "finished_at_ms",
           "status", "files_in", "files_out", "bytes_in", "bytes_out", "rows_removed",
           "snapshot_id", "error"]


def init(lake, *args, name="lake", code=0):
    return cli.run("init-state", name, "--catalog-uri", lake.uri, "--json", *args, code=code)


def make(lake):
    return init(lake, "--warehouse", cli.place.location(lake.root)).json


def start(lake, holder, *args):
    args = cli.place.arguments("lease_tool", [lake.uri, holder, *map(str, args)])
    return subprocess.Popen([TOOL, *args], stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True, env=cli.environment())


def tool(lake, holder, *args):
    process = start(lake, holder, *args)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    return json.loads(out)


def rows(lake, row_filter=None):
    table = lake.catalog.load_table(LOG)
    scan = table.scan() if row_filter is None else table.scan(row_filter=row_filter)
    return scan.to_arrow().to_pylist()


def expected(n):
    """As lease_tool makes it."""
    at = 1_800_000_000_000 + n
    return {"job_id": f"job-{n}", "table_name": f"lake.sales.t{n % 3}", "trigger": "scheduled",
            "principal": "sqe", "started_at_ms": at, "finished_at_ms": at + 1000,
            "status": "failed" if n % 2 else "success", "files_in": n, "files_out": n + 1,
            "bytes_in": n + 2, "bytes_out": n + 3, "rows_removed": n + 4,
            "snapshot_id": None if n % 2 else n + 5, "error": f'why "{n}"' if n % 2 else None}


# --- the table ----------------------------------------------------------------------------------


def test_init_state_makes_the_table_once(lake):
    result = make(lake)
    assert result == {"procedure": "init_state", "table": "sqe_system.maintenance_log",
                      "status": "created", "namespace_created": True,
                      "location": f"{cli.place.location(lake.root)}/sqe_system/maintenance_log"}
    assert ("sqe_system",) in lake.catalog.list_namespaces()
    assert lake.catalog.list_tables("sqe_system") == [LOG]
    table = lake.catalog.load_table(LOG)
    assert [field.name for field in table.schema().fields] == COLUMNS
    assert [field.name for field in table.schema().fields if not field.required] == [
        "snapshot_id", "error"]
    assert {field.field_type for field in table.schema().fields} == {LongType(), StringType()}
    assert [(field.name, field.transform) for field in table.spec().fields] == [
        ("trigger", IdentityTransform()), ("finished_at_ms_trunc", TruncateTransform(86400000))]
    assert table.metadata.format_version == 2
    assert table.scan().to_arrow().num_rows == 0

    before = table.metadata_location
    again = make(lake)
    assert (again["status"], again["namespace_created"]) == ("exists", False)
    assert lake.catalog.load_table(LOG).metadata_location == before
    audit = pathlib.Path(f"{lake.db}.audit.jsonl").read_text().splitlines()
    assert [json.loads(line)["kind"] for line in audit] == ["admin_ddl"]


def test_init_state_says_what_it_needs(lake):
    failed = init(lake, code=cli.USAGE)
    assert "give a location" in failed.err
    with pytest.raises(NoSuchTableError):
        lake.catalog.load_table(LOG)
    location = f"{cli.place.location(lake.root)}/elsewhere"
    assert init(lake, "--location", location).json["location"] == location
    other = init(lake, "--location", location + "2", name="lake.sales.mine").json
    assert (other["table"], other["status"]) == ("sales.mine", "created")


def test_init_state_leaves_another_table_alone(lake):
    lake.catalog.create_namespace("sqe_system")
    lake.catalog.create_table(LOG, schema=Schema(
        NestedField(1, "job_id", StringType(), required=True),
        NestedField(2, "files_in", IntegerType(), required=False)))
    before = lake.catalog.load_table(LOG).metadata_location
    failed = init(lake, code=cli.USAGE)
    assert "files_in is no long" in failed.err and "table_name is missing" in failed.err
    assert lake.catalog.load_table(LOG).metadata_location == before


def test_ddl_opens_nothing(tmp_path):
    ddl = cli.run("init-state", "lake", "--catalog-uri", f"sqlite:///{tmp_path}/none.db",
                  "--ddl").out
    assert ddl.startswith("CREATE TABLE IF NOT EXISTS lake.sqe_system.maintenance_log (")
    assert re.findall(r"^  `(\w+)`", ddl, re.MULTILINE) == COLUMNS
    assert list(tmp_path.iterdir()) == []


# --- rows ---------------------------------------------------------------------------------------


def test_pyiceberg_reads_what_we_write(lake):
    make(lake)
    tool(lake, "me", "append", 7)
    tool(lake, "me", "append", 3)
    want = [expected(n) for n in [*range(7), *range(3)]]
    got = rows(lake)
    assert sorted(got, key=str) == sorted(want, key=str)
    table = lake.catalog.load_table(LOG)
    assert [s.summary.operation.value for s in table.snapshots()] == ["append", "append"]
    assert table.current_snapshot().summary.additional_properties["total-records"] == "10"
    assert len(list(table.scan(row_filter=EqualTo("trigger", "lease")).plan_files())) == 0

    compacted = tool(lake, "me", "compact")
    assert (compacted["files_rewritten"], compacted["files_added"]) == (2, 1)
    assert sorted(rows(lake), key=str) == sorted(want, key=str)
    assert tool(lake, "me", "rows") == {"rows": 10}


def test_old_metadata_files_go(lake):
    """The table asks for it; the last ten and the current one stay."""
    make(lake)
    for _ in range(14):
        tool(lake, "me", "append", 1)
    directory = lake.root / "sqe_system" / "maintenance_log" / "metadata"
    assert len(list(directory.glob("*.metadata.json"))) == 11
    table = lake.catalog.load_table(LOG)
    assert {pathlib.Path(entry.metadata_file).name for entry in table.metadata.metadata_log} == {
        path.name for path in directory.glob("*.metadata.json")
    } - {pathlib.Path(table.metadata_location).name}
    assert len(rows(lake)) == 14


def test_we_read_what_pyiceberg_writes(lake):
    """Another coordinator's claim, written by another program, after the partitioning has changed:
    pyiceberg alone does not write the one that the table was made with."""
    make(lake)
    tool(lake, "me", "claim", "lake.sales.old", 300)
    table = lake.catalog.load_table(LOG)
    with table.update_spec() as update:
        update.remove_field("finished_at_ms_trunc")
    now = int(time.time() * 1000)
    claim = {**expected(0), "job_id": "theirs", "table_name": KEY, "trigger": "lease",
             "principal": "other-1", "started_at_ms": now, "finished_at_ms": now + 600_000,
             "status": "claimed", "snapshot_id": None}
    table.append(pa.Table.from_pylist([claim], schema=table.schema().as_arrow()))
    held = tool(lake, "me", "claim", KEY, 300)
    assert (held["kind"], held["holder"]) == ("held", "other-1")
    assert tool(lake, "me", "claim", "lake.sales.free", 300)["kind"] == "acquired"
    assert tool(lake, "you", "claim", "lake.sales.old", 300)["holder"] == "me"
    table.refresh()
    table.append(pa.Table.from_pylist([{**claim, "status": "released"}],
                                      schema=table.schema().as_arrow()))
    assert tool(lake, "me", "claim", KEY, 300)["kind"] == "acquired"


def test_columns_go_by_name(lake):
    """A table that pyiceberg made, in another order and with a column of its own (T35)."""
    lake.catalog.create_namespace("sqe_system")
    texts = {"job_id", "table_name", "trigger", "principal", "status", "error"}
    fields = [NestedField(10 + i, name, StringType() if name in texts else LongType(),
                          required=False)
              for i, name in enumerate(reversed(COLUMNS))]
    fields.insert(3, NestedField(40, "cluster", StringType(), required=False))
    lake.catalog.create_table(LOG, schema=Schema(*fields))
    assert init(lake).json["status"] == "exists"
    tool(lake, "me", "append", 4)
    want = [{**expected(n), "cluster": None} for n in range(4)]
    assert sorted(rows(lake), key=lambda row: row["job_id"]) == want
    assert tool(lake, "me", "claim", KEY, 300)["kind"] == "acquired"
    assert tool(lake, "you", "claim", KEY, 300)["holder"] == "me"


# --- leases -------------------------------------------------------------------------------------


def test_a_claim_is_a_row(lake):
    make(lake)
    before = int(time.time() * 1000)
    claim = tool(lake, "me", "claim", KEY, 300)
    assert claim["kind"] == "acquired"
    row, = rows(lake, And(EqualTo("trigger", "lease"), GreaterThan("finished_at_ms", before)))
    assert (row["job_id"], row["table_name"], row["principal"], row["status"]) == (
        claim["id"], KEY, "me", "claimed")
    assert row["finished_at_ms"] - row["started_at_ms"] == 300_000
    assert tool(lake, "you", "claim", KEY, 300) == {
        "kind": "held", "holder": "me", "stolen_from": "", "id": ""}
    assert tool(lake, "me", "release", KEY) == {"released": claim["id"]}
    assert tool(lake, "you", "claim", KEY, 0)["kind"] == "acquired"
    # It had no time at all: the next one steals it, and the log says so.
    assert tool(lake, "me", "claim", KEY, 300)["stolen_from"] == "you"
    notes = sorted(row["error"] for row in rows(lake) if row["error"])
    assert notes[0] == "stolen by me: ran out at " + notes[0][-27:]
    assert notes[1] == "stolen from you"


@pytest.mark.parametrize("attempt", range(3))
def test_of_those_who_claim_at_once_one_does(lake, attempt):
    """Processes of their own, on a log without rows (R152)."""
    make(lake)
    processes = [start(lake, f"p{n}", "claim", f"{KEY}{attempt}", 300) for n in range(4)]
    results = [process.communicate(timeout=120) for process in processes]
    # One that met too many others may give up: it works without a lease, and has none.
    kinds = [json.loads(out)["kind"] for out, err in results if out]
    assert kinds.count("acquired") == 1, results
    claims = [row for row in rows(lake) if row["status"] == "claimed"]
    assert len(claims) == 1
