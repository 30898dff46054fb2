"""Iceberg tables in a bucket through a REST catalog that lends the credentials for it: lithify has
none of its own (Q9, I34, R183)."""

import itertools

import cli
import pytest
import s3_lake
from iceberg_lake import plain_rows
from pyiceberg.catalog.rest import RestCatalog
from s3_bucket import KEY, SECRET, Faults, S3Tree

WAREHOUSE = "s3://tables"
PLAN = ("latency=0.03,reset_before=0.02,reset_after=0.03,truncated=0.02,internal_error_after=0.02,"
        "slow_down=0.03,doubled=0.03")

namespaces = itertools.count()


class LentLake(s3_lake.S3Lake):
    """`config`: a file for lithify, with the catalog and who it is there; no key of the bucket."""

    def __init__(self, directory, endpoint, uri):
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
