"""The Flight SQL server before a catalog that asks a policy about every request: each caller sees
and does what the catalog allows that caller, and nobody gets anything by way of the server."""

import secrets
import sys

import adbc_driver_manager
import cli
import pyarrow as pa
import pyarrow.flight as flight
import pytest
from granting import RESTRICTED, Grants
from iceberg_lake import as_time_goes_by
from rest_lake import delete_rows

sys.path.insert(0, str(cli.REPOSITORY / "tests" / "e2e"))

import server as servers  # noqa: E402
from flight_sql import command, text  # noqa: E402

counter = iter(range(10**6))


class Served(Grants):
    """A lake of the owner's, and a server of its catalog."""

    def __init__(self, service, home, namespace, config, directory):
        super().__init__(service, home, namespace, config)
        self.server = servers.Server(directory, f"""
[server]
local_files = true
[catalogs.lake]
uri = "{service.uri}"
""", env=as_time_goes_by("remove-orphan-files"))

    def key(self, role):
        return self.service.keys[role]

    def sql(self, role, statement, code=0, key=None):
        done = self.server.run(statement, code=code, token=key or self.key(role))
        assert (key or self.key(role)) not in done.stdout + done.stderr
        return done

    def rows_as(self, role, statement):
        return self.server.rows(statement, token=self.key(role))

    def error_as(self, role, statement, **kwargs):
        return self.sql(role, statement, code=1, **kwargs).stderr

    def table(self, name="t"):
        return ".".join([*self.namespace, name])

    def call(self, procedure, more=""):
        return f"CALL system.{procedure}(table => '{self.table()}'{more})"


@pytest.fixture
def served(granting, tmp_path):
    lake = Served(granting, tmp_path / "state", ("sales", f"s{next(counter)}"),
                  tmp_path / "lithify.toml", tmp_path / "server")
    lake.plain("t", files=6)
    delete_rows(lake, "t", [0, 5])
    yield lake
    lake.server.stop(code=None)


def changes(lake):
    first = min(lake.load("t").snapshots(), key=lambda s: s.sequence_number).snapshot_id
    return [lake.call("rewrite_data_files", ", delete_file_threshold => 1"),
            lake.call("rewrite_manifests"),
            lake.call("expire_snapshots", ", older_than => now()"),
            lake.call("rollback_to_snapshot", f", snapshot_id => {first}"),
            f"ALTER TABLE {lake.table()} SET TBLPROPERTIES ('a' = 'b')"]


def test_who_may_write_writes(served):
    rows = served.rows("t")
    (row,) = served.rows_as("writer", changes(served)[0])
    assert (row["status"], row["files_rewritten"], row["rows_removed"]) == ("committed", 6, 12)
    assert served.rows("t") == rows
    (count,) = served.rows_as("writer", f"SELECT count(*) AS n FROM {served.table()}")
    assert count["n"] == len(rows)


def test_who_may_read_reads_and_no_more(served):
    (shown,) = served.rows_as("reader", f"SHOW TABLES IN {'.'.join(served.namespace)}")
    assert shown["table"] == "t"
    (health,) = served.rows_as("reader", served.call("table_health"))
    assert health["live_data_files"] == 6
    (count,) = served.rows_as("reader", f"SELECT count(*) AS n FROM {served.table()}")
    assert count["n"] == len(served.rows("t"))
    assert served.rows_as("reader", "EXPLAIN " + changes(served)[0])
    before = served.state("t")
    for statement in changes(served):
        known = len(served.service.refusals())
        error = served.error_as("reader", statement)
        assert "denied" in error and "Not permitted to update table" in error, statement
        assert served.state("t") == before, statement
        assert len(served.service.refusals()) == known + 1, statement  # Asked once (R305).
    served.server.stop()
    refused = [event for event in served.server.audited() if event["kind"] == "maintenance"]
    assert len(refused) >= len(changes(served))
    assert {event["phase"] for event in refused} <= {"intent", "aborted"}


def test_what_no_commit_would_ask_is_asked(served):
    """R305: whom the catalog lets only read gets no success for a change that changes nothing, and
    removes no files that the catalog does not know of."""
    alter = f"ALTER TABLE {served.table()} SET TBLPROPERTIES ('a' = 'b')"
    (done,) = served.rows_as("writer", alter)
    assert done["status"] == "committed"
    orphan = served.directory("t") / "data" / "orphan.parquet"
    orphan.write_bytes(b"x")
    served.age("t")
    before = served.state("t")
    for statement in (alter, f"ALTER TABLE {served.table()} UNSET TBLPROPERTIES IF EXISTS ('z')",
                      served.call("remove_orphan_files")):
        error = served.error_as("reader", statement)
        assert "denied" in error and "Not permitted to update table" in error, statement
        assert served.state("t") == before and orphan.exists(), statement
    (done,) = served.rows_as("writer", alter)
    assert done["status"] == "unchanged"
    (done,) = served.rows_as("writer", served.call("remove_orphan_files"))
    assert done["files_removed"] == 1 and not orphan.exists()


def test_who_may_see_nothing_sees_nothing(served):
    # That nothing may be listed is told: it must not look as if there were nothing.
    for statement in ("SHOW TABLES", "SELECT * FROM system.tables",
                      "SELECT * FROM system.table_health"):
        assert "No policy permits 'list'" in served.error_as("nobody", statement)
    before = served.state("t")
    for statement in (served.call("table_health"), f"SELECT * FROM {served.table()}",
                      f"DESCRIBE {served.table()}", f"SHOW SNAPSHOTS {served.table()}",
                      *changes(served)):
        assert "not_found" in served.error_as("nobody", statement), statement
        assert served.state("t") == before


def test_two_callers_at_one_server_do_not_meet(served):
    """Neither one's jobs, tickets nor views are the other's."""
    served.sql("writer", changes(served)[0])
    assert len(served.rows_as("writer", "SHOW JOBS")) == 1
    (job,) = served.rows_as("writer", "SELECT job_id FROM system.jobs")
    assert served.rows_as("reader", "SHOW JOBS") == []
    assert served.rows_as("reader", "SELECT * FROM system.jobs") == []
    assert "not_found" in served.error_as("reader", f"CANCEL JOB '{job['job_id']}'")

    def options(role):
        return flight.FlightCallOptions(
            headers=[(b"authorization", f"Bearer {served.key(role)}".encode())])

    with flight.connect(served.server.url) as client:
        query = flight.FlightDescriptor.for_command(command(
            "CommandStatementQuery", text(1, f"SELECT * FROM {served.table()}")))
        info = client.get_flight_info(query, options("writer"))
        ticket = info.endpoints[0].ticket
        with pytest.raises(pa.ArrowException, match="not known"):
            client.do_get(ticket, options("nobody")).read_all()
        assert client.do_get(ticket, options("writer")).read_all().num_rows == len(served.rows("t"))


def test_a_token_that_the_catalog_does_not_know(served):
    forged = "rb_" + secrets.token_urlsafe(32)
    before = served.state("t")
    for statement in ("SHOW TABLES", served.call("table_health"), *changes(served)):
        assert "denied" in served.error_as(None, statement, key=forged), statement
    with (served.server.connect(token=forged) as connection, connection.cursor() as cursor,
          pytest.raises(adbc_driver_manager.Error) as caught):
        cursor.execute("SHOW TABLES")
        cursor.fetchall()
    assert caught.value.status_code == adbc_driver_manager.AdbcStatusCode.UNAUTHENTICATED
    with (served.server.connect(token=served.key("reader")) as connection,
          connection.cursor() as cursor, pytest.raises(adbc_driver_manager.Error) as caught):
        cursor.execute(changes(served)[0])
        cursor.fetchall()
    assert caught.value.status_code == adbc_driver_manager.AdbcStatusCode.UNAUTHORIZED
    assert served.state("t") == before


@pytest.mark.parametrize("role", RESTRICTED)
def test_part_of_the_rows_or_columns(served, role):
    """Whoever may see only a part gets nothing: lithify cannot keep the filter."""
    before = served.state("t")
    for statement in (f"SELECT * FROM {served.table()}", *changes(served)):
        assert "read-restrictions" in served.error_as(role, statement), statement
    assert served.state("t") == before


def test_no_token_is_in_what_is_written(served):
    """Neither the audit log nor the server's output has a key, whoever used it how."""
    for role in ("reader", "writer"):
        served.rows_as(role, served.call("table_health"))
    served.error_as("nobody", "SHOW TABLES")
    served.error_as("reader", f"SELECT '{served.key('reader')}' FROM {served.table('no')}")
    errors = served.server.stop()
    written = errors + served.server.audit_log.read_text()
    for role, key in served.service.keys.items():
        assert key not in written, role
