"""The Flight SQL server by the JDBC driver: queries, prepared statements, updates, metadata."""

import json
import pathlib
import subprocess
import sys

import cli
import pytest

sys.path.insert(0, str(cli.REPOSITORY / "tests" / "e2e"))

import iceberg_lake  # noqa: E402
import server as servers  # noqa: E402

SCRIPT = pathlib.Path(__file__).parent / "flight_jdbc.sh"


@pytest.fixture
def local(tmp_path):
    return iceberg_lake.Lake(tmp_path / "warehouse")


@pytest.fixture
def served(local, tmp_path):
    server = servers.Server(tmp_path / "server", servers.lake_config(local))
    yield server
    server.stop(code=None)


def jdbc(server, *statements, code=0):
    url = server.url.replace("grpc://", "jdbc:arrow-flight-sql://") + "/?useEncryption=false"
    done = subprocess.run([SCRIPT, "run", url, *statements], capture_output=True, text=True,
                          timeout=300, check=False)
    assert done.returncode == code, done.stdout + done.stderr
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")] \
        if code == 0 else done.stderr


def test_statements(local, served):
    for number in range(3):
        local.plain(f"t{number}", files=4)

    def rewrite(number):
        return (f"CALL system.rewrite_data_files(table => 'sales.t{number}', "
                "min_input_files => 2)")

    before = [len(local.load(f"t{n}").metadata.snapshots) for n in range(3)]
    answers = jdbc(served, "query:" + rewrite(0), "prepared:" + rewrite(1), "update:" + rewrite(2),
                   "query:SELECT region, count(*) AS n FROM sales.t0 GROUP BY 1 ORDER BY 1",
                   "query:CALL system.table_health(table => 'sales.t0')", "query:SHOW JOBS")
    assert [answer["status"] for answer in answers[:2]] == ["committed", "committed"]
    assert "updated" in answers[2]
    assert answers[3:5] == [{"region": "eu", "n": 20}, {"region": "us", "n": 20}]
    assert answers[5]["small_files"] == 1
    assert len(answers[6:]) == 3
    # Each ran once (R069).
    assert [len(local.load(f"t{n}").metadata.snapshots) for n in range(3)] == \
        [count + 1 for count in before]


def test_metadata(local, served):
    local.plain("t", files=1)
    answers = jdbc(served, "tables:sales")
    assert [(row["TABLE_CAT"], row["TABLE_SCHEM"], row["TABLE_NAME"], row["TABLE_TYPE"])
            for row in answers if "TABLE_TYPE" in row] == [("lake", "sales", "t", "TABLE")]
    columns = [row for row in answers if "COLUMN_NAME" in row]
    assert [row["COLUMN_NAME"] for row in columns] == ["id", "region", "note"]


def test_batches(local, served):
    """A query for each row; no driver can send a change so, which has no parameters."""
    local.plain("t", files=4)
    before = local.metadata_location("t")
    (done,) = jdbc(served, "batch:SELECT id FROM sales.t WHERE id = ?|1|2|3")
    assert done["batch"] >= 1
    error = jdbc(served, "batch:CALL system.rewrite_data_files(table => 'sales.t')|1|2", code=1)
    assert "parameter" in error.lower()
    assert local.metadata_location("t") == before


def test_errors(local, served):
    local.plain("t", files=1)
    error = jdbc(served, "query:CALL system.table_helth(table => 'sales.t')", code=1)
    assert 'did you mean "table_health"' in error
