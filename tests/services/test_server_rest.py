"""The Flight SQL server before a real REST catalog, through a proxy that changes its mind: a caller
whose rights or token go while a job works."""

import time

import adbc_driver_manager
import pyarrow as pa
import pyarrow.flight as flight
import pytest
import server as servers
from flight_sql import command, text
from proxy import error, late

TOKEN = "the-callers-own-token"
DENIED = adbc_driver_manager.AdbcStatusCode.UNAUTHORIZED
UNKNOWN = adbc_driver_manager.AdbcStatusCode.UNAUTHENTICATED


@pytest.fixture
def served(lake, proxy, tmp_path):
    lake.plain("t", files=6)
    proxy.token = TOKEN
    server = servers.Server(tmp_path / "server",
                            f'[server]\nlocal_files = true\n[catalogs.lake]\nuri = "{proxy.uri}"\n')
    yield server
    server.stop(code=None)


@pytest.fixture
def impatient(lake, proxy, tmp_path):
    """One statement of a user at once, each for some seconds at most."""
    lake.plain("t", files=1)
    proxy.token = TOKEN
    server = servers.Server(
        tmp_path / "impatient",
        f'[server]\nlocal_files = true\nstatements_per_user_max = 1\nstatement_timeout = "3s"\n'
        f'[catalogs.lake]\nuri = "{proxy.uri}"\n')
    yield server
    server.stop(code=None)


def changes(lake):
    table = ".".join([*lake.namespace, "t"])
    first = lake.load("t").metadata.snapshots[0].snapshot_id
    return [f"CALL system.rewrite_data_files(table => '{table}', min_input_files => 2)",
            f"CALL system.rewrite_manifests(table => '{table}')",
            f"CALL system.expire_snapshots(table => '{table}', older_than => now())",
            f"CALL system.rollback_to_snapshot(table => '{table}', snapshot_id => {first})",
            f"ALTER TABLE {table} SET TBLPROPERTIES ('a' = 'b')"]


def status_of(server, statement, token=TOKEN):
    with (server.connect(token=token) as connection, connection.cursor() as cursor,
          pytest.raises(adbc_driver_manager.Error) as caught):
        cursor.execute(statement)
        cursor.fetchall()
    return caught.value.status_code


def refuse(lake, proxy, served, fault, expected):
    """Every change is refused as it is committed: once, and the table is as it was."""
    before = lake.metadata_location("t"), lake.rows("t")
    for statement in changes(lake):
        proxy.commits = [fault]
        sent = len(proxy.sent_commits)
        assert status_of(served, statement) == expected, statement
        assert len(proxy.sent_commits) == sent + 1 and proxy.commits == [], statement
        assert (lake.metadata_location("t"), lake.rows("t")) == before, statement
        yield statement
    assert {call.headers["Authorization"] for call in proxy.calls} == {f"Bearer {TOKEN}"}


def steps_of(server):
    server.stop()
    return [event["phase"] for event in server.audited() if event["kind"] == "maintenance"]


def test_rights_that_go_before_the_commit(lake, proxy, served):
    """R305: it fails as that, nothing is left behind, and nobody asks again."""
    fault = error(403, "ForbiddenException", "not any more")
    for statement in refuse(lake, proxy, served, fault, DENIED):
        assert lake.leftovers("t") == set(), statement
    assert steps_of(served) == ["intent", "aborted"] * len(changes(lake))


def test_a_token_that_goes_before_the_commit(lake, proxy, served):
    """Whether the commit was applied cannot be looked for without a token: what was written stays
    for the sweep of orphans (R115), and the audit log says that it is not known."""
    fault = error(401, "NotAuthorizedException", "not any more")
    assert len(list(refuse(lake, proxy, served, fault, UNKNOWN))) == len(changes(lake))
    assert steps_of(served) == ["intent", "unknown"] * len(changes(lake))


def test_revoked_while_it_reads(lake, proxy, served):
    before = lake.metadata_location("t")
    rewrite = changes(lake)[0]
    for reads in range(3):
        proxy.reads = [*([lambda p, call: p.ask(call)] * reads),
                       error(401, "NotAuthorizedException", "not any more")]
        assert status_of(served, rewrite) == UNKNOWN, reads
        proxy.reads = []
        assert lake.metadata_location("t") == before and lake.leftovers("t") == set()
    assert served.row(rewrite, token=TOKEN)["status"] == "committed"


def test_each_call_has_its_own_token(lake, proxy, served):
    """A token that is not the catalog's gets nothing, before, between and after those that are."""
    for token, good in (("nobody", False), (TOKEN, True), ("nobody", False), (TOKEN, True)):
        if good:
            assert served.rows(f"SHOW TABLES IN {lake.namespace[0]}", token=token)
        else:
            assert status_of(served, "SHOW TABLES", token=token) == UNKNOWN
    refused = [call for call in proxy.calls if call.headers.get("Authorization") == "Bearer nobody"]
    assert refused and all(call.status == 401 for call in refused)


def test_who_no_catalog_knows_gets_nothing_computed(proxy, served):
    """A bearer that nobody checks here, and statements that ask no catalog: it is asked first, and
    its word counts for a while."""
    alone = ("SELECT 1 AS x", "SELECT count(*) FROM range(10)", "SELECT * FROM system.jobs",
             "DESCRIBE SELECT 1")
    for statement in alone:
        assert status_of(served, statement, token="nobody") == UNKNOWN, statement
    for _ in range(2):
        for statement in alone:
            served.rows(statement, token=TOKEN)
    known = [call for call in proxy.calls if call.headers.get("Authorization") == f"Bearer {TOKEN}"]
    assert [call.path.partition("?")[0].rsplit("/", 1)[1] for call in known] == ["config",
                                                                                 "namespaces"]
    served.stop()
    refused = [event for event in served.audited() if event["statement_type"] == "plan"]
    assert [event["error_code"] for event in refused] == ["denied"] * len(alone)


def test_a_catalog_that_lists_nothing_knows_the_caller(proxy, served):
    proxy.reads = [lambda p, call: p.ask(call), error(403, "ForbiddenException", "no list for you")]
    assert served.rows("SELECT 1 AS x", token=TOKEN) == [{"x": 1}]
    assert proxy.reads == []


def test_a_catalog_that_cannot_be_asked_is_no_word(proxy, served):
    proxy.reads = [error(503, "SlowDown", "later")] * 20
    assert "denied" not in served.error("SELECT 1", token=TOKEN)
    proxy.reads = []
    assert served.rows("SELECT 1 AS x", token=TOKEN) == [{"x": 1}]


def planning(lake):
    return flight.FlightDescriptor.for_command(command(
        "CommandStatementQuery", text(1, f"SELECT * FROM {lake.namespace[0]}.t")))


def slow_table(proxy):
    """The table takes half a minute to load; all else is quick."""
    def read(p, call):
        return late(30 if call.path.partition("?")[0].endswith("/t") else 0)(p, call)

    proxy.reads = [read] * 9


def test_planning_ends_when_the_client_leaves(lake, proxy, impatient):
    headers = [(b"authorization", f"Bearer {TOKEN}".encode())]
    impatient.rows("SELECT 1 AS x", token=TOKEN)
    slow_table(proxy)
    with flight.connect(impatient.url) as client, pytest.raises(pa.ArrowException):
        client.get_flight_info(planning(lake),
                               flight.FlightCallOptions(timeout=1, headers=headers))
    # Its place is free, long before the table would have come.
    end = time.monotonic() + 2
    while "as many statements" in impatient.start("SELECT 1", token=TOKEN).communicate()[1]:
        assert time.monotonic() < end
    impatient.stop()
    (plan,) = [event for event in impatient.audited()
               if event["statement_type"] == "plan" and "t" in event["query"]["text"].split(".")]
    assert plan["error_code"] == "cancelled" and plan["resources"][0]["name"] == "t"


def test_planning_has_the_time_of_statements(lake, proxy, impatient):
    impatient.rows("SELECT 1 AS x", token=TOKEN)
    slow_table(proxy)
    begin = time.monotonic()
    assert "server.statement_timeout" in impatient.error(
        f"SELECT * FROM {lake.namespace[0]}.t", token=TOKEN)
    assert time.monotonic() - begin < 20
