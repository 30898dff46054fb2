"""The Flight SQL server on a SQLite catalog, through the command line and ADBC: statements,
prepared statements and updates, what drivers ask, cancelling and stopping."""

import json
import os
import secrets
import signal
import subprocess
import time

import adbc_driver_manager
import cli
import pyarrow as pa
import pyarrow.flight as flight
import pytest
import server as servers
from flight_sql import command, length, text, varint
from iceberg_lake import PLAIN, plain_rows
from pyiceberg.types import LongType

pytestmark = pytest.mark.local_disk("a server takes no keys of its own, and SQLite lends none")

REWRITE = "CALL system.rewrite_data_files(table => 'sales.t', min_input_files => 2)"


@pytest.fixture
def start(tmp_path):
    """start(config, *args) -> Server; all are stopped at the end."""
    running = []

    def start_one(config, *args, **options):
        running.append(servers.Server(tmp_path / f"server{len(running)}", config, *args, **options))
        return running[-1]

    yield start_one
    for server in running:
        server.stop(code=None)


@pytest.fixture
def served(lake, start):
    """A server of the lake."""
    return start(servers.lake_config(lake))


# --- statements ----------------------------------------------------------------------------------

def test_health_has_the_columns_of_the_commission(lake, served):
    """R073: the seed's six columns first, and in that order."""
    lake.plain(files=6)
    row = served.row("CALL system.table_health(table => 'sales.t')")
    assert list(row)[:6] == ["table", "small_files", "avg_file_mb", "delete_ratio",
                             "eligible_groups", "opted_in"]
    assert (row["table"], row["small_files"], row["opted_in"]) == ("sales.t", 6, False)
    assert row["eligible_groups"] == 1 and row["live_data_files"] == 6


@pytest.mark.parametrize("traceparent, named", [
    ("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
     "4bf92f3577b34da6a3ce929d0e0e4736"),
    ("00-nonsense-00f067aa0ba902b7-01", None)])
def test_a_snapshot_names_the_trace_of_its_caller(lake, served, traceparent, named):
    lake.plain(files=6)
    header = {"adbc.flight.sql.rpc.call_header.traceparent": traceparent}
    with served.connect(**header) as connection, connection.cursor() as cursor:
        cursor.execute(REWRITE)
        cursor.fetchall()
    assert len(lake.data_entries("t")) == 1
    assert lake.head("t").summary.additional_properties.get("lithify.trace-id") == named


def test_a_rewrite_by_any_client(lake, served):
    lake.plain(files=6, rows=10)
    expected = lake.rows("t")
    row = served.row(REWRITE)
    assert (row["status"], row["files_rewritten"], row["files_added"]) == ("committed", 6, 1)
    assert (row["rows_in"], row["rows_out"], row["snapshot_id"]) == (60, 60,
                                                                     lake.head("t").snapshot_id)
    assert lake.rows("t") == expected
    assert lake.head("t").summary["lithify.job-id"] == row["job_id"]
    # The same job under the same number everywhere.
    (job,) = served.rows("SHOW JOBS")
    assert (job["job_id"], job["state"], job["table"]) == (row["job_id"], "done", "sales.t")
    again = served.row(REWRITE)
    assert (again["status"], again["snapshot_id"]) == ("skipped", None)
    assert again["reason"]


def test_selecting(lake, served):
    """As the caller, of the rows that are left, and of the views."""
    lake.plain(files=3, rows=10)
    assert served.rows("SELECT region, count(*) AS n FROM sales.t GROUP BY 1 ORDER BY 1") == [
        {"region": "eu", "n": 15}, {"region": "us", "n": 15}]
    first = lake.load("t").metadata.snapshots[0].snapshot_id
    assert served.row(f"SELECT count(*) AS n FROM lake.sales.t AT (VERSION => {first})")["n"] == 10
    served.row(REWRITE)
    (job,) = served.rows("SELECT procedure, state FROM system.jobs")
    assert job == {"procedure": "rewrite_data_files", "state": "done"}
    assert served.rows("SELECT name, small_files FROM system.table_health") == [
        {"name": "t", "small_files": 1}]
    assert served.row("SELECT count(*) AS n FROM system.snapshots")["n"] == 4
    assert served.rows("SELECT * FROM system.tables") == [
        {"catalog": "lake", "namespace": "sales", "name": "t"}]
    assert [row["column_name"] for row in served.rows("DESCRIBE SELECT region AS r FROM sales.t")] \
        == ["r"]
    assert "region" in [row["column_name"] for row in served.rows("SUMMARIZE sales.t")]
    missing = served.error("SELECT * FROM system.nothing")
    assert "there are: jobs, maintenance_plan, snapshots" in missing
    assert "denied" in served.error("SELECT * FROM read_csv('/etc/passwd')")
    with served.connect() as connection, connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM sales.t WHERE id < ? AND region = ?", (10, "eu"))
        assert cursor.fetchall() == [(5,)]


def test_names_may_have_a_catalog(lake, served):
    lake.plain(files=2)
    for call in ("system.table_health(table => 'lake.sales.t')",
                 "lake.system.table_health(table => 'sales.t')",
                 "table_health(table => 'sales.t')"):
        assert served.row(f"CALL {call}")["table"] == "sales.t"
    assert 'no catalog "other"' in served.error(
        "CALL other.system.table_health(table => 'sales.t')")


def test_explaining_changes_nothing(lake, served):
    lake.plain(files=6)
    before = lake.metadata_location("t"), lake.tree("t")
    rows = served.rows("EXPLAIN " + REWRITE)
    assert [(row["verdict"], row["group_files"], row["outputs"]) for row in rows] == [
        ("candidate", 6, 1)]
    assert json.loads(rows[0]["tiers"]) and 0 < rows[0]["est_seconds"] < 10
    expired = served.row("EXPLAIN CALL system.expire_snapshots(table => 'sales.t', "
                         "older_than => TIMESTAMP '2099-01-01 00:00:00')")
    assert expired["dry_run"] is True and expired["snapshots_removed"] == 5
    assert (lake.metadata_location("t"), lake.tree("t")) == before


def test_explaining_a_query(lake, served):
    """What it would read of each table, and DuckDB's plan of the rest; nothing is run."""
    lake.plain("t", files=4)
    lake.plain("u", files=2)
    rows = served.rows("EXPLAIN SELECT a.region, count(*) FROM sales.t a JOIN lake.sales.u b "
                       "ON a.id = b.id JOIN system.tables ON true WHERE a.id >= 30 GROUP BY 1")
    t, u, view, plan = rows
    sizes = sorted((entry.file.lower_bounds[1], entry.file.file_size_in_bytes)
                   for entry in lake.data_entries("t"))
    assert (t["table"], t["files"], t["files_left_out"], t["records"]) == ("sales.t", 1, 3, 10)
    assert t["bytes"] == sizes[-1][1] and t["delete_files"] == 0
    assert t["snapshot_id"] == lake.head("t").snapshot_id
    assert sorted(t["columns"]) == ["id", "region"] and "id" in t["filter"] and "30" in t["filter"]
    assert (u["table"], u["files"], u["files_left_out"], u["columns"]) == (
        "lake.sales.u", 2, 0, ["id"])
    assert (view["table"], view["files"], view["plan"]) == ("system.tables", None, None)
    assert plan["table"] is None
    for part in ("SCAN sales.t", "SCAN lake.sales.u", "JOIN", "GROUP_BY"):
        assert part in plan["plan"]
    (only,) = served.rows("explain select 1 + 1")
    assert only["table"] is None and only["plan"]
    # The next statement gets an instance that knows nothing of it.
    assert served.row("SELECT count(*) AS n FROM sales.t")["n"] == 40
    assert "line 2, column 8" in served.error("EXPLAIN\nSELECT nonsense FROM sales.t")
    assert "not_found" in served.error("EXPLAIN SELECT * FROM sales.nothing")
    assert "EXPLAIN SELECT" in served.error("EXPLAIN ANALYZE SELECT 1")
    assert "parameters" in served.error("EXPLAIN SELECT * FROM sales.t WHERE id = ?")
    assert "denied" in served.error("EXPLAIN SELECT * FROM read_csv('/etc/passwd')")
    assert "denied" in served.error("EXPLAIN WITH x AS (SELECT 1) SELECT getenv('HOME')")


def test_explaining_with_parameters(lake, served):
    """As it would be run with them: what they leave out is left out."""
    lake.plain("t", files=4)
    query = "EXPLAIN SELECT note FROM sales.t WHERE id >= ? AND region = ?"
    with served.connect() as connection, connection.cursor() as cursor:
        cursor.execute(query, (30, "eu"))
        table, plan = cursor.fetch_arrow_table().to_pylist()
        assert (table["files"], table["files_left_out"]) == (1, 3)
        assert "30" in table["filter"] and "SCAN sales.t" in plan["plan"]
        cursor.execute(query, (0, "eu"))
        assert cursor.fetch_arrow_table().to_pylist()[0]["files"] == 4
    assert "2 parameters, and 0 are given" in served.error(query)
    # The next statement gets an instance that knows nothing of it.
    assert served.row("SELECT count(*) AS n FROM sales.t")["n"] == 40


def test_rows_of_parameters(lake, served):
    """A query is run once for each, in their order; the first error ends it, and tells its row."""
    lake.plain("t", files=2)
    query = "SELECT id FROM sales.t WHERE id = ?"
    ids = [3, 15, 3, 99, 7]

    def one_column(values):
        return pa.record_batch({"1": values})

    with served.connect() as connection, connection.cursor() as cursor:
        cursor.execute(query, one_column(ids))
        assert [row[0] for row in cursor.fetchall()] == [3, 15, 3, 7]
        cursor.execute(query, (15,))  # The ones before are forgotten.
        assert cursor.fetchall() == [(15,)]
        cursor.executemany(query, [(number,) for number in ids])
        many = pa.RecordBatchReader.from_batches(
            pa.schema({"1": pa.int64()}), [one_column([n]) for n in range(20)])
        cursor.execute(query, many)  # In batches of their own.
        assert [row[0] for row in cursor.fetchall()] == list(range(20))
        for send in (lambda: cursor.execute("SELECT CAST(? AS INT) AS n", one_column(["1", "x"])),
                     lambda: cursor.executemany("SELECT CAST(? AS INT)", [("1",), ("x",)])):
            with pytest.raises(adbc_driver_manager.Error, match="row 2 of 2 of the parameters"):
                send()
                cursor.fetchall()
        # What is too much is known before it is all there.
        with pytest.raises(adbc_driver_manager.Error, match="request_bytes_max"):
            cursor.execute(query, one_column(list(range(200_000))))
    served.stop()
    events = [event for event in served.audited() if event.get("query", {}).get("text") == query]
    assert len(events) == 4  # One for each statement, however many rows it had.


def test_rows_of_parameters_have_one_time(lake, start):
    """server.statement_timeout is that of the whole statement."""
    server = start(servers.lake_config(lake), "--set", "server.statement_timeout=2s")
    slow = "SELECT count(*) AS n FROM range(300000) t(i) WHERE md5(i::TEXT) != ?"
    begin = time.monotonic()
    with (server.connect() as connection, connection.cursor() as cursor,
          pytest.raises(adbc_driver_manager.Error, match="statement_timeout|took longer|limit")):
        cursor.execute(slow, pa.record_batch({"1": ["x"] * 2_000}))
        cursor.fetchall()
    assert time.monotonic() - begin < 60


def test_statements_that_have_no_parameters(lake, served):
    """None is passed over in silence, and nothing that changes a table is run by rows (R069)."""
    lake.plain("t", files=4)
    before = lake.metadata_location("t")
    with served.connect() as connection, connection.cursor() as cursor:
        for send in (lambda: cursor.execute(REWRITE, ("sales.t",)),
                     lambda: cursor.executemany(REWRITE, [("a",), ("b",)]),
                     lambda: cursor.execute("SHOW TABLES", (1,)),
                     lambda: cursor.execute("SELECT 1", (1,))):
            with pytest.raises(adbc_driver_manager.Error, match="0 parameters, and 1 are given"):
                send()
    for handle in (flight_sql_prepare(served, REWRITE), flight_sql_prepare(served, "SHOW TABLES")):
        for kind in ("CommandPreparedStatementUpdate", "CommandPreparedStatementQuery"):
            with pytest.raises(pa.ArrowException, match="3 rows of parameters .* has none"):
                put_rows(served, command(kind, length(1, handle)), rows=3)
    assert lake.metadata_location("t") == before
    assert "only queries have parameters" in served.error(
        "CALL system.table_health(table => ?)")


def flight_sql_prepare(server, statement):
    """The handle of a prepared statement."""
    url = b"type.googleapis.com/arrow.flight.protocol.sql.ActionCreatePreparedStatementRequest"
    body = length(1, url) + length(2, text(1, statement))
    with flight.connect(server.url) as client:
        (answer,) = client.do_action(flight.Action("CreatePreparedStatement", body))
    packed = answer.body.to_pybytes()
    value = packed[2 + packed[1] + 1:]  # The Any's value, after its type.
    while value[0] & 0x80:
        value = value[1:]
    return value[3:3 + value[2]]  # Field 1 of the result, a short text.


def put_rows(server, descriptor, rows):
    """Rows without a column."""
    batch = pa.RecordBatch.from_struct_array(pa.array([{}] * rows, pa.struct([])))
    assert (batch.num_rows, batch.num_columns) == (rows, 0)
    with flight.connect(server.url) as client:
        writer, reader = client.do_put(flight.FlightDescriptor.for_command(descriptor),
                                       batch.schema)
        with writer:
            writer.write_batch(batch)
            writer.done_writing()
            reader.read()


def test_retention_and_rollback(lake, served):
    lake.plain(files=4)
    first = lake.load("t").metadata.snapshots[0].snapshot_id
    rolled = served.row("CALL system.rollback_to_snapshot(table => 'sales.t', "
                        f"snapshot_id => {first})")
    assert (rolled["status"], rolled["current_snapshot_id"]) == ("committed", first)
    assert lake.head("t").snapshot_id == first
    expired = served.row("CALL system.expire_snapshots(table => 'sales.t', older_than => now())")
    assert expired["snapshots_removed"] == 3
    merged = served.row("CALL system.rewrite_manifests(table => 'sales.t')")
    assert merged["status"] == "skipped"
    orphans = served.row("CALL system.remove_orphan_files(table => 'sales.t', dry_run => TRUE)")
    assert orphans["status"] and orphans["dry_run"] is True


def test_properties(lake, served):
    lake.plain(files=1)
    served.row("ALTER TABLE sales.t SET TBLPROPERTIES "
               "('sqe.maintenance.enabled' = 'true', 'n' = 5)")
    assert lake.load("t").properties["sqe.maintenance.enabled"] == "true"
    assert served.row("CALL system.table_health(table => 'sales.t')")["opted_in"] is True
    listed = {row["key"]: row["value"] for row in served.rows("SHOW TBLPROPERTIES sales.t")}
    assert listed["n"] == "5"
    assert served.rows("SHOW TBLPROPERTIES sales.t ('n')") == [{"key": "n", "value": "5"}]
    served.row("ALTER TABLE sales.t UNSET TBLPROPERTIES ('n')")
    assert "n" not in lake.load("t").properties
    assert 'no property "n"' in served.error("ALTER TABLE sales.t UNSET TBLPROPERTIES ('n')")
    before = lake.metadata_location("t")
    for again in ("UNSET TBLPROPERTIES IF EXISTS ('n')",
                  "SET TBLPROPERTIES ('sqe.maintenance.enabled' = 'true')"):
        assert served.row(f"ALTER TABLE sales.t {again}")["status"] == "unchanged"
    assert lake.metadata_location("t") == before
    served.stop()
    # On record as what it was; what changed nothing is a statement and no change.
    changes = [event for event in served.audited() if event["kind"] == "maintenance"]
    assert [event["phase"] for event in changes] == ["intent", "committed"] * 2
    assert not any(event.get("error") for event in changes)


def test_showing(lake, served):
    lake.plain(files=3)
    assert served.rows("SHOW TABLES IN sales") == [
        {"catalog": "lake", "namespace": "sales", "table": "t"}]
    assert served.rows("SHOW TABLES LIKE 'x%'") == []
    assert served.rows("SHOW NAMESPACES") == [{"catalog": "lake", "namespace": "sales"}]
    snapshots = served.rows("SHOW SNAPSHOTS sales.t")
    assert [row["is_current"] for row in snapshots] == [False, False, True]
    assert snapshots[-1]["refs"] == ["main"]
    assert [(row["name"], row["type"]) for row in served.rows("DESCRIBE sales.t")] == [
        ("id", "long"), ("region", "string"), ("note", "string")]


def test_errors_have_place_cause_and_hint(lake, served):
    lake.plain(files=1)
    unknown = served.error("CALL system.table_helth(table => 'sales.t')")
    assert "line 1, column 6" in unknown and 'did you mean "table_health"' in unknown
    argument = served.error("CALL system.table_health(tabel => 'sales.t')")
    assert "line 1, column 26" in argument and '"table"' in argument
    missing = served.error("CALL system.table_health(table => 'sales.nothing')")
    assert "not_found" in missing and "sales.nothing" in missing
    assert "line 1" in served.error("SELEKT 1")
    assert "next:" in served.error("CALL system.table_health('sales', 't')")  # T32


# --- Flight SQL ----------------------------------------------------------------------------------

def test_adbc_queries_updates_and_prepared_statements(lake, served):
    """R069: three ways to send a CALL, each of which runs it once."""
    with served.connect() as connection, connection.cursor() as cursor:
        for number, send in enumerate(("query", "prepared", "update")):
            lake.plain(f"t{number}", files=4)
            call = REWRITE.replace("sales.t", f"sales.t{number}")
            before = len(lake.load(f"t{number}").metadata.snapshots)
            if send == "query":
                cursor.execute(call)
                assert cursor.fetch_arrow_table().column("status").to_pylist() == ["committed"]
            elif send == "prepared":
                cursor.adbc_prepare(call)
                cursor.execute(call)
                assert cursor.fetchall()[0][2] == "committed"
            else:
                update(connection, call)
            assert len(lake.load(f"t{number}").metadata.snapshots) == before + 1, send


def update(connection, statement):
    """By DoPut."""
    with adbc_driver_manager.AdbcStatement(connection.adbc_connection) as raw:
        raw.set_sql_query(statement)
        raw.execute_update()


def test_what_drivers_ask(lake, served):
    lake.plain("t", files=1)
    lake.plain("u", files=1)
    with served.connect() as connection:
        info = connection.adbc_get_info()
        assert info["vendor_name"] == "lithify" and info["vendor_version"]
        assert connection.adbc_get_table_types() == ["TABLE"]
        objects = connection.adbc_get_objects(depth="tables").read_all().to_pylist()
        (catalog,) = objects
        assert catalog["catalog_name"] == "lake"
        (schema,) = catalog["catalog_db_schemas"]
        assert [table["table_name"] for table in schema["db_schema_tables"]] == ["t", "u"]
        assert connection.adbc_get_table_schema(
            "t", catalog_filter="lake", db_schema_filter="sales").names == ["id", "region", "note"]


def test_a_ticket_of_a_change_is_good_once(lake, served):
    lake.plain(files=4)
    with flight.connect(served.url) as client:
        query = flight.FlightDescriptor.for_command(
            command("CommandStatementQuery", text(1, REWRITE)))
        before = len(lake.load("t").metadata.snapshots)
        info = client.get_flight_info(query)
        client.get_flight_info(query)
        assert len(lake.load("t").metadata.snapshots) == before  # Asking runs nothing.
        ticket = info.endpoints[0].ticket
        assert client.do_get(ticket).read_all().column("status").to_pylist() == ["committed"]
        with pytest.raises(pa.ArrowException, match="handle is not known"):
            client.do_get(ticket).read_all()
        assert len(lake.load("t").metadata.snapshots) == before + 1
        # What only reads may be fetched again.
        shown = client.get_flight_info(flight.FlightDescriptor.for_command(
            command("CommandStatementQuery", text(1, "SHOW TABLES"))))
        for _ in range(2):
            assert client.do_get(shown.endpoints[0].ticket).read_all().num_rows == 1


def test_a_table_that_changes_under_a_prepared_statement(lake, served):
    """Rows of another schema than the client was told are an error, never other values."""
    lake.plain(files=1)
    with served.connect() as connection, connection.cursor() as cursor:
        cursor.adbc_prepare("SELECT * FROM sales.t")
        with lake.load("t").update_schema() as update:
            update.add_column("more", LongType())
            update.move_first("more")
        with pytest.raises(adbc_driver_manager.Error, match="columns changed"):
            cursor.execute("SELECT * FROM sales.t")
            cursor.fetchall()
    assert len(served.rows("SELECT * FROM sales.t")) == 10


def test_what_cannot_be_sent_is_refused(lake, served):
    assert "ENUM" in served.error("SELECT CAST('a' AS ENUM('a', 'b'))")
    long = served.error("SELECT CAST('" + "x" * 20_000 + "' AS INT)")
    assert "invalid" in long and len(long) < 10_000


def test_a_client_that_leaves_a_silent_select(lake, served):
    """It ends although it sends nothing."""
    query = flight.FlightDescriptor.for_command(command("CommandStatementQuery", text(
        1, "SELECT i FROM range(100000000000) t(i) WHERE i < 300000 OR md5(i::TEXT) = 'x'")))
    with flight.connect(served.url) as client:
        reader = client.do_get(client.get_flight_info(query).endpoints[0].ticket)
        assert reader.read_chunk().data.num_rows > 0
        reader.cancel()
    begin = time.monotonic()
    served.stop()
    assert time.monotonic() - begin < 10


def test_health_for_probes(lake, start):
    server = start(servers.lake_config(lake).replace('"anonymous"', '"bearer"'))

    def probe(what, *args):
        return subprocess.run([servers.CLIENT, "--url", server.url, what, *args],
                              capture_output=True, text=True, timeout=60, check=False)

    for what in ("--health", "--alive"):
        assert probe(what).returncode == 0 and '"serving"' in probe(what).stdout
    server.stop()
    for what in ("--health", "--alive"):
        assert probe(what).returncode == 1


def test_probes_of_a_server_that_ends(lake, slow):
    """It is alive and takes no statements, until the one that runs is through."""
    server = slow("--set", "server.drain=30s")
    call = server.start(REWRITE)
    job = wait_for_job(server, "running")
    server.process.send_signal(signal.SIGTERM)
    end = time.monotonic() + 10
    while probe_code(server, "--health") == 0:
        assert time.monotonic() < end
    assert probe_code(server, "--alive") == 0
    assert "about to end" in server.error("SHOW TABLES")
    with flight.connect(server.url) as client, pytest.raises(pa.ArrowException):
        client.get_flight_info(flight.FlightDescriptor.for_command(
            command("CommandStatementQuery", text(1, f"CANCEL JOB '{job['job_id']}'"))))
    call.communicate(timeout=60)
    assert call.returncode == 0
    server.stop()


def probe_code(server, what):
    return subprocess.run([servers.CLIENT, "--url", server.url, what], capture_output=True,
                          timeout=60, check=False).returncode


# --- probes over HTTP ----------------------------------------------------------------------------

def curl(url, *args):
    """(Status, body); status 0: no answer."""
    done = subprocess.run(
        ["curl", "-s", "--noproxy", "*", "--max-time", "20", "-w", "\n%{http_code}", *args, url],
        capture_output=True, text=True, check=False)
    body, _, status = done.stdout.rpartition("\n")
    return int(status), body


@pytest.mark.parametrize("program", [servers.PROGRAM, servers.DAEMON])
def test_probes_by_curl(lake, start, program):
    server = start(servers.lake_config(lake).replace('"anonymous"', '"bearer"'),
                   "--set", "server.health_listen=127.0.0.1:0", program=program)
    probes = server.probes_url()
    assert curl(probes + "/healthz") == (200, "ok\n")
    assert curl(probes + "/readyz") == (200, "ok\n")
    assert curl(probes + "/readyz", "--head")[0] == 200
    # Nothing else is told, nor taken.
    for path in ("/", "/metrics", "/healthz/", "/readyz/../healthz2", "/v1/config"):
        assert curl(probes + path) == (404, "not found\n"), path
    assert curl(probes + "/healthz", "--data", "x=y")[0] == 405
    assert curl(probes + "/healthz", "--request", "GET", "--data", "x=y")[0] == 413
    assert curl(probes + "/healthz", "--header", "X: " + "x" * 100_000)[0] in (0, 431)
    assert curl(probes + "/healthz") == (200, "ok\n")
    server.stop()
    assert curl(probes + "/healthz")[0] == 0


def test_probes_over_http_of_a_server_that_ends(lake, slow):
    server = slow("--set", "server.drain=30s", "--set", "server.health_listen=127.0.0.1:0")
    probes = server.probes_url()
    call = server.start(REWRITE)
    wait_for_job(server, "running")
    server.process.send_signal(signal.SIGTERM)
    end = time.monotonic() + 10
    while curl(probes + "/readyz")[0] == 200:
        assert time.monotonic() < end
    assert curl(probes + "/readyz") == (503, "draining\n")
    assert curl(probes + "/healthz") == (200, "ok\n")
    call.communicate(timeout=60)
    assert call.returncode == 0
    server.stop()


def test_an_address_for_probes_that_is_taken(lake, start, tmp_path):
    first = start(servers.lake_config(lake), "--set", "server.health_listen=127.0.0.1:0")
    taken = first.probes_url().removeprefix("http://")
    for listen, why in ((taken, "Address already in use"), ("8081", "must be host:port")):
        done = subprocess.run(
            [servers.PROGRAM, "--config", first.config, "--set", "server.listen=127.0.0.1:0",
             "--set", f"server.health_listen={listen}"], capture_output=True, text=True,
            timeout=60, check=False, env={**os.environ, "XDG_STATE_HOME": str(tmp_path / "other")})
        assert done.returncode == cli.USAGE, done.stderr
        assert why in done.stderr and "server.health_listen" in done.stderr


def test_health_check_and_types(served):
    with flight.connect(served.url) as client:
        (answer,) = client.do_action(flight.Action("HealthCheck", b""))
        assert json.loads(answer.body.to_pybytes())["status"] == "serving"
        info = client.get_flight_info(
            flight.FlightDescriptor.for_command(command("CommandGetXdbcTypeInfo")))
        types = client.do_get(info.endpoints[0].ticket).read_all()
        numbers = types.column("data_type").to_pylist()
        assert numbers and numbers == sorted(numbers)
        assert types.schema.field("create_params").type == pa.list_(
            pa.field("item", pa.string(), nullable=False))
        for name in ("CommandGetPrimaryKeys", "CommandGetImportedKeys", "CommandGetExportedKeys",
                     "CommandGetCrossReference"):
            keys = client.get_flight_info(flight.FlightDescriptor.for_command(
                command(name, text(3, "t"))))
            assert client.do_get(keys.endpoints[0].ticket).read_all().num_rows == 0


def test_garbage_is_refused(served):
    with flight.connect(served.url) as client:
        for garbage in (b"", b"SELECT 1", b"\xff" * 100, command("CommandStatementIngest"),
                        command("CommandStatementQuery", text(1, "CALL"))):
            with pytest.raises((flight.FlightError, pa.ArrowException)):
                client.get_flight_info(flight.FlightDescriptor.for_command(garbage))
            with pytest.raises((flight.FlightError, pa.ArrowException)):
                client.do_get(flight.Ticket(garbage)).read_all()
        with pytest.raises((flight.FlightError, pa.ArrowException)):
            list(client.do_action(flight.Action("Nonsense", b"")))
        assert list(client.list_actions())


def test_sessions_have_a_default_schema(lake, served):
    lake.plain(files=1)
    options = {"adbc.flight.sql.session.option.schema": "sales"}
    with served.connect() as connection:
        cursor = connection.cursor()
        connection.adbc_connection.set_options(**options)
        cursor.execute("CALL system.table_health(table => 't')")
        assert cursor.fetchone()[0] == "sales.t"
        cursor.close()


# --- audit ---------------------------------------------------------------------------------------

def test_everything_is_on_record(lake, served):
    """R056, R168 to R171: statements and changes in one chain, texts without secrets."""
    lake.plain(files=4)
    job = served.row(REWRITE)["job_id"]
    served.row("SELECT count(*) FROM sales.t WHERE note = 'Bearer abcdefghijklmnop.qrstuv'")
    served.error("SELECT * FROM sales.nothing")
    served.rows("SELECT 1 AS n FROM sales.t a JOIN lake.sales.t b USING (id), system.jobs")
    served.rows("SELECT 2 AS n")
    served.rows("SHOW TABLES")
    served.stop()
    verified = cli.run("audit", "verify", served.audit_log, "--json")
    assert verified.json["ok"] is True, verified.out
    events = served.audited()
    steps = [event for event in events if event["kind"] == "maintenance"]
    assert [(event["phase"], event["job_id"]) for event in steps] == [("intent", job),
                                                                      ("committed", job)]
    queries = {event["statement_type"]: event for event in events if event["kind"] == "query"}
    assert queries["rewrite_data_files"]["query_id"] == job
    assert queries["rewrite_data_files"]["status"] == "success"
    assert queries["rewrite_data_files"]["query"]["text"] == REWRITE
    assert "abcdefghijklmnop" not in served.audit_log.read_text()
    assert queries["plan"]["status"] == "failure" and "sales.nothing" in queries["plan"]["error"]
    assert all(event["client_ip"] and event["actor"] for event in queries.values())
    table = {"catalog": "lake", "namespace": ["sales"], "name": "t", "object_type": "table"}
    assert queries["rewrite_data_files"]["resources"] == [table]
    view = {"catalog": "", "namespace": ["system"], "name": "jobs", "object_type": "view"}
    about = [event.get("resources", []) for event in events if event["statement_type"] == "select"]
    assert about == [[table], [table, view], []] or about == [[table], [view, table], []]


def test_what_statements_were_about_is_on_record(lake, served):
    """R168, R169: also of those that fail, of SHOW and its like, and of what drivers ask."""
    lake.plain(files=1)

    def a(kind, name, *namespace, catalog="lake"):
        return {"catalog": catalog, "namespace": list(namespace), "name": name,
                "object_type": kind}

    table, missing = a("table", "t", "sales"), a("table", "nothing", "sales")
    expected = [("plan", [missing]), ("plan", [table]), ("plan", [table]), ("plan", []),
                ("table_health", [missing]), ("describe", [table]), ("show", [table]),
                ("show", [table]), ("show", [a("namespace", "", "sales")]),
                ("show", [a("namespace", "")]), ("set_properties", [table]),
                ("unset_properties", [table]), ("describe", [missing]),
                ("cancel_job", [a("job", "some", catalog="")])]
    served.error("SELECT * FROM sales.nothing")
    served.error("SELECT no_such_column FROM sales.t")
    served.error("CALL system.table_health(table => 'sales.t', nonsense => 1)")
    served.error("SELEKT 1")
    served.error("CALL system.table_health(table => 'sales.nothing')")
    for statement in ("DESCRIBE sales.t", "SHOW TBLPROPERTIES sales.t", "SHOW SNAPSHOTS sales.t",
                      "SHOW TABLES IN lake.sales", "SHOW NAMESPACES",
                      "ALTER TABLE sales.t SET TBLPROPERTIES ('a' = 'b')",
                      "ALTER TABLE sales.t UNSET TBLPROPERTIES ('a')"):
        served.rows(statement)
    served.error("DESCRIBE sales.nothing")
    served.error("CANCEL JOB 'some'")
    with served.connect() as connection:
        connection.adbc_get_objects(depth="tables", db_schema_filter="sales").read_all()
    served.stop()
    events = [event for event in served.audited() if event["kind"] == "query"]
    asked = [event for event in events if event["statement_type"].startswith("get_")]
    assert [(event["statement_type"], event.get("resources", []))
            for event in events if event not in asked] == expected
    assert asked and all(event["resources"] == [a("namespace", "", "sales")] for event in asked)


def test_a_refused_login_is_on_record(lake, start):
    server = start(servers.lake_config(lake).replace('"anonymous"', '"bearer"'))
    assert "denied" in server.error("SHOW TABLES")
    server.stop()
    (event,) = server.audited()
    assert (event["kind"], event["statement_type"], event["status"]) == ("auth", "login", "failure")


# --- tokens --------------------------------------------------------------------------------------

def test_no_token_stays_in_memory(lake, start):
    """R001: nothing of a caller is kept after the call, least of all in blocks that were freed. An
    allocator overwrites the beginning of those in any case, so that the end is looked for."""
    lake.plain(files=4)
    server = start(servers.lake_config(lake).replace('"anonymous"', '"bearer"'))
    pid = server.process.pid
    if not os.access(f"/proc/{pid}/mem", os.R_OK):
        pytest.skip("only root may look into the memory of a process that leaves no core file")

    def work(token):
        for statement in ("SHOW TABLES", "SELECT count(*) FROM sales.t", REWRITE):
            server.run(statement, token=token)

    first, second = ("token-" + secrets.token_hex(24) for _ in range(2))
    work(first)
    assert servers.occurrences(pid, b"sales.t") > 0  # What is there is found.
    # A buffer of the transport may have the last of it until it is used again.
    for _ in range(10):
        if servers.occurrences(pid, first[-24:].encode()) == 0:
            break
        work(second)
    assert servers.occurrences(pid, first[-24:].encode()) == 0


# --- cancelling and stopping ---------------------------------------------------------------------

SLOW = {"LD_PRELOAD": str(cli.REPOSITORY / "build" / "tests" / "slow_read.so"),
        "LITHIFY_SLOW_READ_MS": "100"}


def wait_for_job(server, state, seconds=30):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        jobs = server.rows("SHOW JOBS")
        if jobs and jobs[0]["state"] == state:
            return jobs[0]
        time.sleep(0.02)
    raise AssertionError(f"no job came to be {state}: {jobs}")


@pytest.fixture
def slow(lake, start):
    """slow(*args): a server whose rewrites take some seconds."""
    lake.plain(files=30)
    return lambda *args: start(servers.lake_config(lake, "[limits]\njobs = 1\n"), *args, env=SLOW)


def test_cancel_job(lake, slow):
    stuck = slow()
    before = lake.metadata_location("t")
    call = stuck.start(REWRITE)
    job = wait_for_job(stuck, "running")
    begin = time.monotonic()
    assert stuck.row(f"CANCEL JOB '{job['job_id']}'")["status"] == "stopping"
    _, errors = call.communicate(timeout=30)
    took = time.monotonic() - begin
    assert call.returncode == 1 and "cancelled" in errors
    assert took < 5
    assert wait_for_job(stuck, "cancelled")["job_id"] == job["job_id"]
    assert lake.metadata_location("t") == before and not lake.leftovers("t")
    assert "not_found" in stuck.error("CANCEL JOB 'nonsense'")


def test_a_client_that_goes_stops_its_job(lake, slow):
    stuck = slow()
    before = lake.metadata_location("t")
    call = stuck.start(REWRITE)
    wait_for_job(stuck, "running")
    call.send_signal(signal.SIGINT)
    call.communicate(timeout=30)
    assert call.returncode == cli.INTERRUPTED
    wait_for_job(stuck, "cancelled")
    assert lake.metadata_location("t") == before and not lake.leftovers("t")


@pytest.mark.parametrize("action", ["CancelFlightInfo", "CancelQuery"])
def test_cancelling_by_flight(lake, served, action):
    """Flight's own way and Flight SQL's older one, by the info that the statement has."""
    query = flight.FlightDescriptor.for_command(command(
        "CommandStatementQuery", text(1, "SELECT * FROM range(100000000000)")))
    with flight.connect(served.url) as client, flight.connect(served.url) as other:
        info = client.get_flight_info(query)
        reader = client.do_get(info.endpoints[0].ticket)
        assert reader.read_chunk().data.num_rows > 0
        body = length(1, info.serialize())
        if action == "CancelQuery":
            url = b"type.googleapis.com/arrow.flight.protocol.sql.ActionCancelQueryRequest"
            body = length(1, url) + length(2, body)
        (answer,) = other.do_action(flight.Action(action, body))
        assert answer.body.to_pybytes()
        begin = time.monotonic()
        with pytest.raises(pa.ArrowException, match="cancelled"):
            while True:
                reader.read_chunk()
        assert time.monotonic() - begin < 10
        # Nobody gets it again.
        with pytest.raises(pa.ArrowException, match="not known"):
            client.do_get(info.endpoints[0].ticket).read_all()


def test_stopping_waits_for_statements_and_then_cancels(lake, slow):
    server = slow("--set", "server.drain=1s")
    before = lake.metadata_location("t")
    call = server.start(REWRITE)
    wait_for_job(server, "running")
    begin = time.monotonic()
    assert "stopping" in server.stop()
    assert time.monotonic() - begin < 20
    call.communicate(timeout=30)
    assert call.returncode == 1
    assert lake.metadata_location("t") == before and not lake.leftovers("t")


def test_limits_of_statements_and_jobs(lake, slow):
    server = slow("--set", "server.jobs_per_user_max=1")
    call = server.start(REWRITE)
    job = wait_for_job(server, "running")
    assert "as many as are allowed" in server.error(REWRITE)
    assert server.rows("SHOW TABLES")
    server.row(f"CANCEL JOB '{job['job_id']}'")
    call.communicate(timeout=30)
    long = "CALL system.table_health(table => '" + "x" * (1 << 20) + "')"
    with flight.connect(server.url) as client, pytest.raises(flight.FlightError, match="limit"):
        body = b"\x0a" + varint(len(long)) + long.encode()
        url = b"type.googleapis.com/arrow.flight.protocol.sql.CommandStatementQuery"
        client.get_flight_info(flight.FlightDescriptor.for_command(
            b"\x0a" + bytes([len(url)]) + url + b"\x12" + varint(len(body)) + body))


def test_limits_of_results(lake, start):
    """A result that is too large, one that takes too long, and one that nobody takes."""
    server = start(servers.lake_config(lake), "--set", "server.result_bytes_max=1MiB",
                   "--set", "server.statement_timeout=1s")
    assert "server.result_bytes_max" in server.error("SELECT * FROM range(1000000)")
    begin = time.monotonic()
    assert "limit" in server.error("SELECT count(*) FROM range(100000000000)")
    assert time.monotonic() - begin < 10
    assert len(server.rows("SELECT * FROM range(10)")) == 10
    slow = start(servers.lake_config(lake), "--set", "server.client_stall=1s",
                 "--set", "server.statements_per_user_max=1")
    query = flight.FlightDescriptor.for_command(command(
        "CommandStatementQuery", text(1, "SELECT * FROM range(1000000000)")))
    with flight.connect(slow.url) as client:
        reader = client.do_get(client.get_flight_info(query).endpoints[0].ticket)
        assert reader.read_chunk().data.num_rows > 0
        assert "as many statements" in slow.error("SHOW TABLES")
        time.sleep(3)
        with pytest.raises(pa.ArrowException, match="too long"):
            while True:
                reader.read_chunk()
    assert slow.rows("SELECT 1 AS x") == [{"x": 1}]


# --- starting ------------------------------------------------------------------------------------

def refused(tmp_path, config, *args):
    (tmp_path / "wrong.toml").write_text(config)
    done = subprocess.run([servers.PROGRAM, "--config", tmp_path / "wrong.toml", *args],
                          capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == cli.USAGE, done.stderr
    return done.stderr


def test_it_starts_with_no_credential_of_its_own(tmp_path):
    """R001: a key of a catalog or a store in the configuration is a mistake, told at the start."""
    error = refused(tmp_path, """
[catalogs.lake]
uri = "https://catalog.example/"
token = "s3cret"
[catalogs.other]
uri = "https://other.example/"
client_id = "c"
client_secret = "s3cret"
[s3]
access_key_id = "AK"
secret_access_key = "s3cret"
""")
    for key in ("catalogs.lake.token", "catalogs.other.client_secret", "s3.secret_access_key"):
        assert key in error
    assert "s3cret" not in error
    for more in ('headers = ["Authorization: Bearer s3cret"]', 'headers = ["X-Api-Key: s3cret"]'):
        error = refused(tmp_path, f'[catalogs.lake]\nuri = "https://catalog.example/"\n{more}\n')
        assert "catalogs.lake.headers" in error and "s3cret" not in error
    error = refused(tmp_path, '[catalogs.lake]\nuri = "https://me:s3cret@catalog.example/"\n')
    assert "s3cret" not in error


def test_other_wrong_configurations(lake, tmp_path):
    assert "[catalogs.NAME]" in refused(tmp_path, "")
    sqlite = f'[catalogs.lake]\nuri = "{lake.uri}"\n'
    assert "server.local_files" in refused(tmp_path, sqlite)
    rest = '[catalogs.lake]\nuri = "https://catalog.example/"\n'
    assert "plaintext" in refused(tmp_path, rest, "--set", "server.listen=0.0.0.0:0")
    assert "server.listen" in refused(tmp_path, rest, "--set", "server.listen=nowhere")
    assert "tls_cert_file" in refused(tmp_path, rest, "--set", "server.tls_cert_file=/nowhere",
                                      "--set", "server.tls_key_file=/nowhere")
    assert "server.catalog" in refused(tmp_path, rest, "--set", "server.catalog=other")


def test_a_key_that_everybody_may_read(lake, start, certificates, tmp_path):
    """As with every other secret in a file."""
    key = tmp_path / "server.key"
    key.write_bytes((certificates / "server.key").read_bytes())
    tls = ("--set", f"server.tls_cert_file={certificates / 'server.crt'}",
           "--set", f"server.tls_key_file={key}")
    key.chmod(0o644)
    done = subprocess.run(
        [servers.PROGRAM, "--config", start(servers.lake_config(lake)).config,
         "--set", "server.listen=127.0.0.1:0", *tls], capture_output=True, text=True, timeout=60,
        check=False, env={**os.environ, "XDG_STATE_HOME": str(tmp_path / "state")})
    assert done.returncode == 1 and "chmod" in done.stderr, done.stderr
    assert "server.tls_key_file" in done.stderr
    key.chmod(0o640)  # Those of its group may, as with secrets that Kubernetes mounts.
    assert start(servers.lake_config(lake), *tls).url.startswith("grpc+tls://")


def test_no_token_is_unauthenticated(lake, start):
    server = start(servers.lake_config(lake).replace('"anonymous"', '"bearer"'))
    with flight.connect(server.url) as client:
        (answer,) = client.do_action(flight.Action("HealthCheck", b""))
        assert answer
        with pytest.raises(flight.FlightUnauthenticatedError):
            client.get_flight_info(flight.FlightDescriptor.for_command(
                command("CommandStatementQuery", text(1, "SHOW TABLES"))))
    with pytest.raises(adbc_driver_manager.Error) as caught:
        with server.connect() as connection, connection.cursor() as cursor:
            cursor.execute("SHOW TABLES")
    assert caught.value.status_code == adbc_driver_manager.AdbcStatusCode.UNAUTHENTICATED


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    """One authority's certificate and key for 127.0.0.1, and another's."""
    directory = tmp_path_factory.mktemp("tls")
    for name in ("server", "other"):
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
                        "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-subj",
                        "/CN=" + name, "-addext", "subjectAltName=IP:127.0.0.1,DNS:localhost",
                        "-keyout", directory / f"{name}.key", "-out", directory / f"{name}.crt"],
                       check=True, capture_output=True)
    return directory


def test_tls(lake, start, certificates):
    lake.plain(files=1)
    server = start(servers.lake_config(lake),
                   "--set", f"server.tls_cert_file={certificates / 'server.crt'}",
                   "--set", f"server.tls_key_file={certificates / 'server.key'}")
    assert server.url.startswith("grpc+tls://")
    trusted = ("--ca-file", str(certificates / "server.crt"))
    assert server.rows("SHOW NAMESPACES", args=trusted)
    server.error("SHOW NAMESPACES", args=("--ca-file", str(certificates / "other.crt")))
    server.error("SHOW NAMESPACES")
    plain = server.url.replace("grpc+tls://", "grpc://")
    refused = subprocess.run([servers.CLIENT, "--url", plain, "-e", "SHOW NAMESPACES"],
                             capture_output=True, timeout=60, check=False)
    assert refused.returncode == 1
    root = (certificates / "server.crt").read_text()
    with (server.connect(**{"adbc.flight.sql.client_option.tls_root_certs": root}) as connection,
          connection.cursor() as cursor):
        cursor.execute("SHOW NAMESPACES")
        assert cursor.fetchall() == [("lake", "sales")]


def test_clients_with_certificates(lake, start, certificates):
    """server.tls_client_ca_file: who shows no certificate of that authority gets nowhere."""
    server = start(servers.lake_config(lake),
                   "--set", f"server.tls_cert_file={certificates / 'server.crt'}",
                   "--set", f"server.tls_key_file={certificates / 'server.key'}",
                   "--set", f"server.tls_client_ca_file={certificates / 'other.crt'}")
    root = (certificates / "server.crt").read_bytes()
    chain, key = ((certificates / f"other.{kind}").read_bytes() for kind in ("crt", "key"))

    def healthy(**options):
        with flight.connect(server.url, tls_root_certs=root, **options) as client:
            return list(client.do_action(flight.Action("HealthCheck", b"")))

    def probe(*args):
        return subprocess.run([servers.CLIENT, "--url", server.url, "--health", *args],
                              capture_output=True, text=True, timeout=60, check=False).returncode

    shown = ("--ca-file", certificates / "server.crt", "--cert-file", certificates / "other.crt",
             "--key-file", certificates / "other.key")
    assert probe(*shown) == 0
    assert probe(*shown, "--tls-name", "localhost") == 0
    assert probe(*shown, "--tls-name", "lake.example") == 1
    assert probe(*shown[:2]) == 1
    assert healthy(cert_chain=chain, private_key=key)
    with pytest.raises((flight.FlightError, pa.ArrowException)):
        healthy()


def test_rows_of_the_client(lake, served):
    """Formats of lithify sql."""
    lake.create("t", PLAIN)
    lake.append("t", plain_rows(0, 3))
    table = served.run("DESCRIBE sales.t", format_="table").stdout
    assert table.splitlines()[0].split() == ["name", "type", "nullable", "partition", "comment"]
    assert table.splitlines()[-1] == "(3 rows)"
    csv = served.run("DESCRIBE sales.t", format_="csv").stdout.splitlines()
    assert csv[:2] == ["name,type,nullable,partition,comment", "id,long,true,,"]
    done = subprocess.run([servers.CLIENT, "--url", served.url, "--format", "json"],
                          input="-- two; statements\nSHOW NAMESPACES;\nSHOW TABLES;\n", text=True,
                          capture_output=True, timeout=60, check=True)
    assert len(done.stdout.splitlines()) == 2
