"""lithify-worker as a process: real tables, the protocol spoken by this side's own code, and what
is left on the disk."""

import io
import json
import pathlib
import re
import signal
import subprocess
import time

import cli
import fastavro
import fleet_worker
import iceberg_tables as it
import pyarrow as pa
import pyarrow.flight as flight
import pyarrow.parquet as pq
import pytest
from fleet_worker import SECRET, Coordinator, Worker, order
from iceberg_lake import plain_rows
from test_iceberg_deletes import delete_equal, delete_positions, paths


@pytest.fixture(name="worker")
def _worker(tmp_path):
    started = Worker(tmp_path / "fleet", "worker.unadopted=600s")
    yield started
    started.stop(signal.SIGKILL)


def data_on_disk(lake, name="t"):
    return {path for path in lake.tree(name) if path.suffix == ".parquet"}


def wait_until(holds, what):
    deadline = time.monotonic() + fleet_worker.PATIENCE
    while not holds():
        assert time.monotonic() < deadline, what
        time.sleep(0.02)


def rows_of(lake, done):
    """Of the outputs, as any reader sees them."""
    tables = [pq.read_table(it.local(path)) for path in done["uploaded_paths"]]
    return sorted(row["id"] for row in pa.concat_tables(tables).to_pylist())


# --- one group -----------------------------------------------------------------------------------


def test_a_group_is_rewritten_and_adopted(lake, worker):
    lake.plain()
    before = data_on_disk(lake)
    coordinator = Coordinator(worker.address)
    sent = order(lake, "t")
    done = coordinator.last("compact_file_group", sent)
    assert done["frame"] == "done", done
    assert done["group_id"] == 7
    assert done["rows_written"] == 60
    assert [entry["path"] for entry in done["inputs"]] == sent["group_file_paths"]
    assert rows_of(lake, done) == list(range(60))
    (path,) = done["uploaded_paths"]
    assert pathlib.Path(it.local(path)).stat().st_size == done["bytes_written"]
    # An Avro manifest that others read, too.
    (manifest,) = fleet_worker.manifests(done)
    (entry,) = fastavro.reader(io.BytesIO(manifest))
    assert entry["data_file"]["file_path"] == path
    assert entry["data_file"]["record_count"] == 60
    assert coordinator.adopt(sent["attempt"]) == {"frame": "accepted"}
    worker.stop()
    assert len(data_on_disk(lake) - before) == 1


def test_deletes_are_derived_from_the_metadata_alone(lake, worker):
    lake.plain()
    files = paths(lake)
    delete_positions(lake, [(files[0], 3), (files[1], 7)])
    delete_equal(lake, ["id"], [(42,), (59,)])
    done = Coordinator(worker.address).last("compact_file_group", order(lake, "t"))
    assert done["frame"] == "done", done
    assert rows_of(lake, done) == [i for i in range(60) if i not in (3, 17, 42, 59)]
    assert done["rows_deleted"] == 4
    assert {entry["rows_deleted"] for entry in done["inputs"]} == {0, 1}


def test_what_nobody_adopts_is_removed(lake, tmp_path):
    worker = Worker(tmp_path / "fleet", "worker.unadopted=1s")
    lake.plain()
    before = data_on_disk(lake)
    coordinator = Coordinator(worker.address)
    sent = order(lake, "t")
    assert coordinator.last("compact_file_group", sent)["frame"] == "done"
    wait_until(lambda: data_on_disk(lake) == before, "the outputs stay")
    late = coordinator.adopt(sent["attempt"])
    assert (late["frame"], late["transport"], late["code"]) == ("failed", False, "not_found")
    worker.stop()


def test_what_is_dropped_is_removed(lake, worker):
    lake.plain()
    before = data_on_disk(lake)
    coordinator = Coordinator(worker.address)
    sent = order(lake, "t")
    assert coordinator.last("compact_file_group", sent)["frame"] == "done"
    assert len(data_on_disk(lake)) == len(before) + 1
    assert coordinator.drop(sent["attempt"]) == {"frame": "accepted"}
    assert data_on_disk(lake) == before


def test_a_worker_that_stops_leaves_nothing(lake, tmp_path):
    worker = Worker(tmp_path / "fleet", "worker.drain=0s")
    lake.plain()
    before = lake.tree("t")
    assert Coordinator(worker.address).last("compact_file_group",
                                            order(lake, "t"))["frame"] == "done"
    worker.stop()
    assert lake.tree("t") == before


def test_a_killed_worker_leaves_orphans_for_the_sweep(lake, worker):
    lake.plain()
    before = data_on_disk(lake)
    assert Coordinator(worker.address).last("compact_file_group",
                                            order(lake, "t"))["frame"] == "done"
    worker.stop(signal.SIGKILL)
    assert len(data_on_disk(lake)) == len(before) + 1
    lake.age("t")
    lake.run("remove-orphan-files", "t", "--older-than", "3d")
    assert data_on_disk(lake) == before


# --- refusals ------------------------------------------------------------------------------------


@pytest.mark.parametrize("change, code", [
    ({"snapshot_id": 1}, "conflict"),
    ({"group_file_paths": ["file:///elsewhere/x.parquet"]}, "conflict"),
    ({"metadata_location": "file:///etc/passwd"}, "corrupt"),
    ({"metadata_location": "s3://lake/t/metadata/1.metadata.json"}, "denied"),
    ({"sort": ["id"]}, "invalid"),
    ({"protocol": 2}, "invalid"),
])
def test_orders_that_make_no_sense(lake, worker, change, code):
    lake.plain(files=2)
    before = lake.tree("t")
    failed = Coordinator(worker.address).last("compact_file_group", order(lake, "t", **change))
    assert (failed["frame"], failed["transport"], failed["code"]) == ("failed", False, code), failed
    assert lake.tree("t") == before


def test_a_table_that_was_changed_meanwhile_is_another_snapshot(lake, worker):
    lake.plain(files=3)
    sent = order(lake, "t")
    lake.append("t", plain_rows(100, 5))
    sent["metadata_location"] = lake.metadata_location("t")
    failed = Coordinator(worker.address).last("compact_file_group", sent)
    assert (failed["code"], failed["transport"]) == ("conflict", False)


def test_files_outside_of_the_table_are_not_read(lake, worker, tmp_path):
    """A file of another place that is in the metadata, as add_files makes them."""
    lake.plain(files=2)
    table = lake.load("t")
    outside = tmp_path / "outside.parquet"
    schema = pq.read_schema(it.local(paths(lake)[0]))
    pq.write_table(pa.Table.from_pylist(plain_rows(1000, 3), schema=schema), outside)
    table.add_files([f"file://{outside}"])
    before = lake.tree("t")
    failed = Coordinator(worker.address).last("compact_file_group", order(lake, "t"))
    assert (failed["frame"], failed["code"]) == ("failed", "denied"), failed
    assert lake.tree("t") == before
    # The control: the same without it.
    names = [path for path in paths(lake) if not path.endswith("/outside.parquet")]
    done = Coordinator(worker.address).last("compact_file_group", order(lake, "t", names))
    assert done["frame"] == "done", done


def test_local_files_only_where_that_is_allowed(lake, tmp_path):
    worker = Worker(tmp_path / "fleet", local_files=False)
    lake.plain(files=2)
    failed = Coordinator(worker.address).last("compact_file_group", order(lake, "t"))
    assert failed["code"] == "denied"
    assert "local_files" in failed["hint"]
    worker.stop()


def test_requests_that_are_not_signed_for_it(worker):
    coordinator = Coordinator(worker.address)
    body = json.dumps({"protocol": 1, "attempt": "a", "s3": []})
    good = coordinator.headers("adopt_outputs", body)

    def refused(action, text, head):
        with pytest.raises(flight.FlightUnauthenticatedError):
            list(coordinator.send(action, text, head))

    for name in good:
        refused("adopt_outputs", body, {k: v for k, v in good.items() if k != name})
    for name in ("issued-at", "expires-at"):
        refused("adopt_outputs", body, {**good, name: str(int(good[name]) + 1)})
    for name in ("worker", "nonce", "signature"):
        other = good[name][:-1] + ("0" if good[name][-1] != "0" else "1")
        refused("adopt_outputs", body, {**good, name: other})
    refused("drop_attempt", body, good)
    refused("adopt_outputs", body + " ", good)
    # The control: it is good, and once.
    (frame,) = coordinator.send("adopt_outputs", body, good)
    assert json.loads(frame.body.to_pybytes()[64:])["code"] == "not_found"
    refused("adopt_outputs", body, good)
    old = str(int(good["issued-at"]) - 600_000)
    refused("adopt_outputs", body,
            coordinator.headers("adopt_outputs", body, **{"issued-at": old,
                                                          "expires-at": old}))
    stranger = Coordinator(worker.address, "another secret of more than 32 b.")
    stranger.hello = coordinator.hello
    refused("adopt_outputs", body, stranger.headers("adopt_outputs", body))
    text = worker.stop()
    assert SECRET not in text
    assert "the signature is not right" in text


def test_what_was_signed_for_a_past_life_is_worth_nothing(tmp_path):
    one = Worker(tmp_path / "fleet")
    body = json.dumps({"protocol": 1, "attempt": "a", "s3": []})
    old = Coordinator(one.address).headers("adopt_outputs", body)
    one.stop(signal.SIGKILL)
    again = Worker(tmp_path / "fleet", f"worker.listen={one.address}")
    with pytest.raises(flight.FlightUnavailableError):
        list(Coordinator(again.address).send("adopt_outputs", body, old))
    again.stop()


# --- the program ---------------------------------------------------------------------------------


def program(*args, **kwargs):
    return subprocess.run([fleet_worker.PROGRAM, *args], capture_output=True, text=True, timeout=60,
                          check=False, **kwargs)


def test_configurations_that_are_refused(tmp_path):
    def refusal(*sets):
        done = program("--check", *[part for text in sets for part in ("--set", text)])
        assert done.returncode in (1, 2), done.stderr
        return done.stderr

    assert "worker.secret" in refusal()
    loopback = "worker.insecure_loopback=true"
    assert "plaintext" in refusal(loopback, "worker.listen=0.0.0.0:0", f"worker.secret={SECRET}")
    assert "fewer than 32 bytes" in refusal(loopback, "worker.secret=hush")
    assert "hush" not in refusal(loopback, "worker.secret=hush")
    assert "unknown key" in refusal(loopback, "worker.nothing=1")
    assert "worker. alone" in refusal(loopback, "server.listen=127.0.0.1:0")
    assert program("--check", "--set", loopback).returncode == 0
    secret = tmp_path / "secret"
    secret.write_text(SECRET + "\n")
    secret.chmod(0o644)
    assert "chmod" in refusal(loopback, f"worker.secret_file={secret}")
    secret.chmod(0o600)
    assert program("--check", "--set", loopback,
                   "--set", f"worker.secret_file={secret}").returncode == 0


def test_a_key_that_everybody_may_read(worker, tmp_path):
    """Of the worker, and of who asks it: as fleet.tls_key is."""
    cert, key = tmp_path / "tls.crt", tmp_path / "tls.key"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
                    "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-subj", "/CN=worker",
                    "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", cert],
                   check=True, capture_output=True)
    config = [part for text in (f"worker.secret={SECRET}", f"worker.tls_cert={cert}",
                                f"worker.tls_key={key}") for part in ("--set", text)]
    probe = ["--probe", worker.address, "--ca", cert, "--cert", cert, "--key", key]
    key.chmod(0o644)
    for args in (["--check", *config], probe):
        done = program(*args)
        assert done.returncode == 1 and "chmod" in done.stderr, done.stderr
        assert "tls_key" in done.stderr or "--key" in done.stderr
    key.chmod(0o640)
    assert program("--check", *config).returncode == 0
    assert "chmod" not in program(*probe).stderr


def test_probes(worker):
    assert program("--probe", worker.address).returncode == 0
    worker.stop()
    assert program("--probe", worker.address).returncode == 1


def test_lithify_starts_it():
    shown = subprocess.run([cli.BINARY, "worker", "--version"], capture_output=True, text=True,
                           timeout=60, check=True)
    assert re.fullmatch(r"lithify-worker \d+\.\d+\.\d+\n", shown.stdout)


# --- a coordinator of ours -----------------------------------------------------------------------


def fleet_args(*workers):
    sets = ["fleet.distribution=require", "fleet.insecure_loopback=true", f"fleet.secret={SECRET}",
            "fleet.workers=" + ",".join(worker.address for worker in workers)]
    return [part for text in sets for part in ("--set", text)]


def described(lake, name):
    """Of the live files, what of a rewrite does not depend on names and times."""
    return sorted((e.file.record_count, e.file.file_size_in_bytes, str(e.file.partition),
                   str(sorted(e.file.value_counts.items())),
                   str(sorted(e.file.null_value_counts.items())),
                   str(sorted(e.file.lower_bounds.items())),
                   str(sorted(e.file.upper_bounds.items()))) for e in lake.data_entries(name))


@pytest.mark.parametrize("partition_by", [None, ["region"]])
def test_the_same_table_by_workers_and_without(lake, tmp_path, partition_by):
    """R140: rows, bounds and accounting."""
    workers = [Worker(tmp_path / "fleet", name=f"w{i}") for i in range(2)]
    for name in ("near", "away"):  # Of one length: files hold where they lie.
        lake.plain(name, partition_by=partition_by)
        files = sorted(lake.data_entries(name), key=lambda e: (e.sequence_number, str(e.file)))
        if not partition_by:
            delete_positions(lake, [(files[0].file.file_path, 1), (files[1].file.file_path, 2)],
                             name=name)
            delete_equal(lake, ["id"], [(42,)], name=name)
    near = lake.run("rewrite-data-files", "near", "--rewrite-all").json
    away = lake.run("rewrite-data-files", "away", "--rewrite-all", *fleet_args(*workers)).json
    assert near["status"] == away["status"] == "committed"
    assert described(lake, "near") == described(lake, "away")
    assert lake.rows("near") == lake.rows("away")
    assert len(lake.rows("away")) == (60 if partition_by else 57)
    for key in ("rows_removed", "files_rewritten", "files_added", "delete_files_removed"):
        assert near[key] == away[key], key
    told = "".join(worker.stop() for worker in workers)
    assert "of sales.away" in told, told
    assert not lake.leftovers("away")
