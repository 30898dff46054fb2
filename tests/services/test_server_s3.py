"""The Flight SQL server on tables in a bucket: with what the catalog lends to the caller, and with
nothing else."""

import json
import urllib.parse
import urllib.request

import pytest
import server as servers
from iceberg_lake import plain_rows
from proxy import Proxy
from s3_bucket import KEY, SECRET
from test_s3_rest import WAREHOUSE, LentLake

direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def token_of(uri):
    """The caller's, which the server gets with each call."""
    form = urllib.parse.urlencode({"grant_type": "client_credentials", "client_id": KEY,
                                   "client_secret": SECRET})
    with direct.open(uri + "/v1/oauth/tokens", form.encode(), timeout=60) as answer:
        return json.load(answer)["access_token"]


class LendsNothing(Proxy):
    """Takes out of the catalog's answers what it lends."""

    def ask(self, call):
        answer = super().ask(call)
        if answer.status == 200 and b"s3.session-token" in answer.body:
            said = json.loads(answer.body)
            said["config"] = {key: value for key, value in said.get("config", {}).items()
                              if not key.startswith("s3.") or key == "s3.endpoint"}
            said.pop("storage-credentials", None)
            answer.body = json.dumps(said).encode()
        return answer


@pytest.fixture
def lent(s3_catalog, tmp_path):
    return LentLake(tmp_path, *s3_catalog)


@pytest.fixture
def start(tmp_path):
    """start(uri) -> Server, in an environment that is full of keys which are not the caller's."""
    running = []

    def start_one(uri):
        config = f'[catalogs.lake]\nuri = "{uri}"\nwarehouse = "{WAREHOUSE}"\n'
        running.append(servers.Server(
            tmp_path / f"server{len(running)}", config,
            env={"AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET,
                 "AWS_EC2_METADATA_DISABLED": "true"}))
        return running[-1]

    yield start_one
    for server in running:
        server.stop(code=None)


def test_procedures_and_select(lent, s3_catalog, start):
    lent.plain(files=6)
    rows = lent.rows("t")
    server = start(s3_catalog[1])
    token = token_of(s3_catalog[1])
    table = f"{lent.namespace[0]}.t"
    assert server.row(f"CALL system.table_health(table => '{table}')", token=token)[
        "small_files"] == 6
    count = f"SELECT count(*) AS n, sum(id) AS s FROM {table}"
    before = server.row(count, token=token)
    assert before["n"] == len(rows)
    done = server.row(f"CALL system.rewrite_data_files(table => '{table}')", token=token)
    assert done["status"] == "committed" and lent.rows("t") == rows
    assert server.row(count, token=token) == before
    lent.append("t", *(plain_rows(1000 + i, 3) for i in range(3)))
    expired = server.row(f"CALL system.expire_snapshots(table => '{table}', older_than => now())",
                         token=token)
    assert expired["snapshots_removed"] > 0 and expired["failed"] == []
    server.stop()
    assert SECRET not in server.audit_log.read_text() and token not in server.audit_log.read_text()


def test_nothing_but_what_is_lent(lent, s3_catalog, start):
    """The keys in the server's environment are good for the bucket, and are not used."""
    lent.plain(files=6)
    with Proxy(s3_catalog[1]) as honest, LendsNothing(s3_catalog[1]) as mean:
        token = token_of(s3_catalog[1])
        table = f"{lent.namespace[0]}.t"
        statements = (f"CALL system.rewrite_data_files(table => '{table}')",
                      f"CALL system.table_health(table => '{table}')",
                      f"SELECT count(*) FROM {table} WHERE note IS NULL")
        server = start(mean.uri)
        for statement in statements:
            error = server.error(statement, token=token)
            assert "denied" in error and "the catalog lends no credentials" in error, statement
        assert len(lent.files("t")) == 6
        server = start(honest.uri)
        assert server.row(statements[0], token=token)["status"] == "committed"
