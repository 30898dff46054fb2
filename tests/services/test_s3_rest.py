"""Iceberg tables in a bucket through a REST catalog that lends the credentials for it: lithify has
none of its own (Q9, I34, R183)."""

import itertools
import json
import time

import cli
import pytest
import s3_lake
from iceberg_lake import plain_rows
from proxy import Proxy
from pyiceberg.catalog.rest import RestCatalog
from s3_bucket import KEY, SECRET, Faults, S3Tree

WAREHOUSE = "s3://tables"
PLAN = ("latency=0.03,reset_before=0.02,reset_after=0.03,truncated=0.02,internal_error_after=0.02,"
        "slow_down=0.03,doubled=0.03")

namespaces = itertools.count()


class ShortLoans(Proxy):
    """What the catalog lends says that it ends after `seconds`, or nothing of an end (None)."""

    EXPIRES = "s3.session-token-expires-at-ms"

    def __init__(self, upstream, seconds):
        super().__init__(upstream)
        self.seconds = seconds
        self.lent = []  # Session tokens.

    def ask(self, call):
        answer = super().ask(call)
        if answer.status != 200 or b"s3.session-token" not in answer.body:
            return answer
        said = json.loads(answer.body)
        loans = [said.get("config", {})]
        loans += [loan["config"] for loan in said.get("storage-credentials") or []]
        for loan in loans:
            if "s3.session-token" not in loan:
                continue
            self.lent.append(loan["s3.session-token"])
            loan.pop(self.EXPIRES, None)
            if self.seconds is not None:
                loan[self.EXPIRES] = str(int((time.time() + self.seconds) * 1000))
        answer.body = json.dumps(said).encode()
        return answer


class LentLake(s3_lake.S3Lake):
    """`config`: a file for lithify, with the catalog and who it is there; no key of the bucket."""

    def __init__(self, directory, endpoint, uri):
        self.uri_of_catalog = uri
        self.config = directory / "lithify.toml"
        self.config.write_text(f"""[catalogs.lake]
uri = "{uri}"
warehouse = "{WAREHOUSE}"
client_id = "{KEY}"
client_secret = "{SECRET}"
""")
        self.env = {"XDG_STATE_HOME": str(directory / "state"), "AWS_EC2_METADATA_DISABLED": "true"}
        catalog = RestCatalog("lake", uri=uri, warehouse=WAREHOUSE, credential=f"{KEY}:{SECRET}",
                              **{"oauth2-server-uri": f"{uri}/v1/oauth/tokens"},
                              **s3_lake.s3_properties(endpoint))
        bucket = S3Tree(endpoint, "unused")
        super().__init__(directory, bucket, catalog, (f"sales{next(namespaces)}",))

    def run(self, command, name, *args, code=0, env=None, endpoint=None, **kwargs):
        # An endpoint of one's own goes before the catalog's.
        more = {"LITHIFY_S3__ENDPOINT": endpoint} if endpoint else {}
        return cli.run(command, f"lake.{self.namespace[0]}.{name}", *args, "--config", self.config,
                       "--json", code=code, env={**self.env, **more, **(env or {})}, **kwargs)


@pytest.fixture
def lent(s3_catalog, tmp_path):
    return LentLake(tmp_path, *s3_catalog)


def test_every_procedure_with_lent_credentials(lent):
    lent.plain(files=6)
    rows = lent.rows("t")
    assert lent.run("table-health", "t").json["small_files"] == 6
    assert lent.run("rewrite-data-files", "t").json["status"] == "committed"
    assert len(lent.files("t")) == 1 and lent.rows("t") == rows
    lent.append("t", *(plain_rows(1000 + i, 3) for i in range(3)))
    rows = lent.rows("t")
    lent.run("rewrite-manifests", "t")
    lent.run("expire-snapshots", "t", "--older-than", "now", "--retain-last", "1")
    lent.run("remove-orphan-files", "t")
    assert lent.rows("t") == rows
    assert len(lent.load("t").metadata.snapshots) == 1


def test_faults_with_lent_credentials(lent, tmp_path):
    lent.plain(files=8, rows=30)
    rows = lent.rows("t")
    with Faults(tmp_path / "faults", lent.bucket.endpoint, 3, PLAN) as faults:
        for _ in range(20):
            run = lent.run("rewrite-data-files", "t", code=None, endpoint=faults.endpoint)
            assert lent.rows("t") == rows
            if run.code == cli.OK:
                break
        assert run.code == cli.OK, run.text
    assert faults.done["requests"] > 20
    assert len(lent.files("t")) == 1


def test_no_credentials_at_all(lent):
    """Where the catalog may lend none, it is said what is missing."""
    lent.plain(files=6)
    lent.config.write_text(lent.config.read_text() + "vended_credentials = false\n")
    run = lent.run("rewrite-data-files", "t", code=None)
    assert run.code != cli.OK
    assert run.json["error"]["code"] == "denied"
    assert "no credentials for S3 were found" in run.text
    assert len(lent.files("t")) == 6


def test_no_lent_secret_is_shown(lent, tmp_path):
    """R267: nor the token of the session, nor what the catalog is asked with."""
    lent.plain(files=6)
    lent_to_us = lent.load("t").io.properties
    said = [lent.run(*args, "t").text for args in
            (("table-health",), ("rewrite-data-files",), ("expire-snapshots",))]
    said += [path.read_text() for path in (tmp_path / "state").rglob("*") if path.is_file()]
    assert len(said) > 3, "an audit log is among them"
    start_of_tokens = lent_to_us["s3.session-token"][:30]
    for text in said:
        assert SECRET not in text and start_of_tokens not in text
        assert "s3.secret-access-key" not in text


@pytest.mark.parametrize("told", [True, False])
def test_a_job_outlives_what_it_was_lent(lent, tmp_path, told):
    """I34: credentials are renewed before they end while a rewrite goes on, or, where the catalog
    does not tell their end, when they are refused."""
    lent.plain(files=9)
    rows = lent.rows("t")
    # Each request takes its time, and so the job does.
    with (Faults(tmp_path / "faults", lent.bucket.endpoint, 7, "latency=1", "--token-life",
                 4) as slow, ShortLoans(lent.uri_of_catalog, 2 if told else None) as loans):
        config = lent.config.read_text().replace(f'uri = "{lent.uri_of_catalog}"',
                                                 f'uri = "{loans.uri}"')
        token_endpoint = f"{lent.uri_of_catalog}/v1/oauth/tokens"
        lent.config.write_text(f'{config}oauth2_server_uri = "{token_endpoint}"\n')
        run = lent.run("rewrite-data-files", "t", "--jobs", "1", endpoint=slow.endpoint)
        assert run.json["status"] == "committed"
    assert len(lent.files("t")) == 1 and lent.rows("t") == rows
    assert slow.done["tokens"] >= 3, slow.done
    assert (slow.done["expired"] == 0) == told, slow.done
    assert len(set(loans.lent)) >= slow.done["tokens"]
    for token in loans.lent:
        assert token not in run.text
