"""A worker whose tables are in a bucket of a real S3 server: with the keys of an order, and with no
others (Q9, T16)."""

import itertools
import json

import pyarrow.parquet as pq
import pytest
from fleet_worker import Coordinator, Worker, order
from s3_bucket import KEY, SECRET, S3Tree
from s3_lake import S3Lake

prefixes = itertools.count()


@pytest.fixture(name="lake")
def _lake(s3_service, tmp_path):
    made = S3Lake(tmp_path / "catalog", S3Tree(s3_service, f"fleet{next(prefixes)}"))
    made.plain()
    return made


@pytest.fixture(name="worker")
def _worker(tmp_path):
    # Keys that lie about on the machine are not for whoever sends orders.
    started = Worker(tmp_path / "fleet", local_files=False,
                     env={"AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET})
    yield started
    assert SECRET not in started.stop()


def loan(lake, prefix=None, secret=SECRET, **changes):
    return {"prefix": prefix or lake.bucket.root, "endpoint": lake.bucket.endpoint,
            "region": "us-east-1", "addressing": "path", "access_key": KEY, "secret_key": secret,
            "session_token": "", **changes}


def data(lake):
    return {key for key in lake.keys() if key.endswith(".parquet")}


def test_with_the_keys_of_the_order(lake, worker):
    before = data(lake)
    coordinator = Coordinator(worker.address)
    sent = order(lake, "t", s3=[loan(lake)])
    done = coordinator.last("compact_file_group", sent)
    assert done["frame"] == "done", done
    (path,) = done["uploaded_paths"]
    assert data(lake) - before == {path}
    rows = pq.read_table(path.removeprefix("s3://"), filesystem=lake.bucket.fs)
    assert sorted(rows["id"].to_pylist()) == list(range(60))
    assert coordinator.drop(sent["attempt"])["frame"] == "accepted"
    assert data(lake) == before
    assert SECRET not in json.dumps(done)


@pytest.mark.parametrize("s3", [
    [], ["elsewhere"], ["wrong"], ["expired"],
])
def test_without_keys_for_it(lake, worker, s3):
    loans = {"elsewhere": loan(lake, prefix="s3://lake/another"),
             "wrong": loan(lake, secret="another secret"),
             "expired": loan(lake, expires_at_us=1_000_000)}
    before = lake.keys()
    failed = Coordinator(worker.address).last(
        "compact_file_group", order(lake, "t", s3=[loans[name] for name in s3]))
    assert (failed["frame"], failed["transport"], failed["code"]) == ("failed", False, "denied"), \
        failed
    assert lake.keys() == before


def test_a_table_beside_it_is_not_read(lake, worker):
    """The keys would do for it: the worker holds itself to the table."""
    lake.plain("beside", files=2)
    table = lake.load("t")
    (path,) = [e.file.file_path for e in lake.data_entries("beside")][:1]
    table.add_files([path])
    failed = Coordinator(worker.address).last("compact_file_group",
                                              order(lake, "t", s3=[loan(lake)]))
    assert (failed["frame"], failed["code"]) == ("failed", "denied"), failed


def test_keys_go_to_no_other_endpoint(lake, tmp_path):
    pinned = Worker(tmp_path / "pinned", "worker.endpoints=https://store.example",
                    local_files=False)
    failed = Coordinator(pinned.address).last("compact_file_group",
                                              order(lake, "t", s3=[loan(lake)]))
    assert (failed["code"], "worker.endpoints" in failed["message"]) == ("denied", True), failed
    pinned.stop()


def test_static_keys_only_by_configuration(lake, tmp_path):
    own = Worker(tmp_path / "own", f"worker.s3.endpoint={lake.bucket.endpoint}",
                 "worker.s3.addressing=path", f"worker.s3.access_key_id={KEY}", local_files=False,
                 env={"LITHIFY_WORKER__S3__SECRET_ACCESS_KEY": SECRET})
    done = Coordinator(own.address).last("compact_file_group", order(lake, "t"))
    assert done["frame"] == "done", done
    assert SECRET not in own.stop()
