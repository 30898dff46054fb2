"""Iceberg tables in a bucket of a real S3 server, written and judged by pyiceberg: with and without
faults on the way, killed, and by two at once (R183, R272, R276).

LITHIFY_S3_SEEDS and LITHIFY_S3_KILLS: as in test_s3_hive.py."""

import itertools
import json
import os
import random
import subprocess
import time

import cli
import pytest
from iceberg_lake import plain_rows
from s3_bucket import SECRET, Faults, S3Tree
from s3_lake import S3Lake

SEEDS = range(1, int(os.environ.get("LITHIFY_S3_SEEDS", "2")) + 1)
KILLS = int(os.environ.get("LITHIFY_S3_KILLS", "4"))
PLAN = ("latency=0.03,reset_before=0.02,reset_after=0.03,reset_body=0.02,truncated=0.02,"
        "internal_error=0.02,internal_error_after=0.02,bad_gateway_after=0.02,slow_down=0.03,"
        "conflict=0.02,doubled=0.03,shortened=0.02")
CLOCK_AHEAD = str(cli.REPOSITORY / "build" / "tests" / "clock_ahead.so")
WEEK = 7 * 86400
EXPIRE = ("--older-than", "now", "--retain-last", "1")

prefixes = itertools.count()


@pytest.fixture
def s3_lake(s3_service, tmp_path):
    return S3Lake(tmp_path / "catalog", S3Tree(s3_service, f"w{next(prefixes)}"))


def check(lake, name, rows):
    """Every file that any snapshot reads is there, and the rows are the same."""
    assert lake.reached(name) <= lake.keys()
    assert lake.rows(name) == rows


def converge(lake, *args, tries=25):
    """Runs a command until it says that all is well."""
    for _ in range(tries):
        run = lake.run(*args, code=None)
        assert run.code >= 0, run.text
        if run.code == cli.OK:
            return run.json
    raise AssertionError(f"{args}: not once well in {tries} tries; the last: {run.text}")


def test_every_procedure(s3_lake, tmp_path):
    s3_lake.plain(files=6)
    rows = s3_lake.rows("t")
    assert s3_lake.run("table-health", "t").json["small_files"] == 6
    assert s3_lake.run("rewrite-data-files", "t", "--dry-run").code == cli.OK
    assert len(s3_lake.files("t")) == 6
    assert s3_lake.run("rewrite-data-files", "t").json["status"] == "committed"
    check(s3_lake, "t", rows)
    assert len(s3_lake.files("t")) == 1
    s3_lake.append("t", *(plain_rows(1000 + i, 3) for i in range(3)))
    rows = s3_lake.rows("t")
    s3_lake.run("rewrite-manifests", "t")
    check(s3_lake, "t", rows)
    s3_lake.run("expire-snapshots", "t", *EXPIRE)
    check(s3_lake, "t", rows)
    assert len(s3_lake.load("t").metadata.snapshots) == 1

    location = s3_lake.load("t").location()
    orphan = f"{location}/data/orphan.parquet"
    s3_lake.write_bytes(orphan, b"nobody's")
    s3_lake.run("remove-orphan-files", "t")
    assert orphan in s3_lake.keys(), "it is not old yet"
    with Faults(tmp_path / "faults", s3_lake.bucket.endpoint, 1, "", age=WEEK) as faults:
        s3_lake.run("remove-orphan-files", "t", endpoint=faults.endpoint)
    assert s3_lake.keys() == s3_lake.reached("t")
    check(s3_lake, "t", rows)


def test_partitions(s3_lake):
    s3_lake.plain(files=6, partition_by=["region"])
    rows = s3_lake.rows("t")
    s3_lake.run("rewrite-data-files", "t")
    check(s3_lake, "t", rows)
    assert len(s3_lake.files("t")) == 2


@pytest.mark.parametrize("seed", SEEDS)
def test_faults(s3_lake, tmp_path, seed):
    """No lost row, no double row, no file removed that a snapshot reads."""
    s3_lake.plain(files=8, rows=30, partition_by=["region"])
    rows = s3_lake.rows("t")
    with Faults(tmp_path / "faults", s3_lake.bucket.endpoint, seed, PLAN, age=WEEK) as faults:
        s3_lake.endpoint = faults.endpoint
        for args in (("rewrite-data-files", "t"), ("remove-orphan-files", "t"),
                     ("rewrite-manifests", "t"), ("expire-snapshots", "t", *EXPIRE),
                     ("remove-orphan-files", "t")):
            converge(s3_lake, *args)
            check(s3_lake, "t", rows)
    assert faults.done["requests"] > 60
    for kind in ("reset_after", "slow_down"):
        assert faults.done[kind] > 0, faults.done
    assert len(s3_lake.files("t")) == 2
    assert s3_lake.keys() == s3_lake.reached("t")


def test_killed(s3_lake):
    """R272: SIGKILL at any moment; a re-run converges."""
    rng = random.Random(23)
    s3_lake.plain("usual", files=6)
    started = time.monotonic()
    s3_lake.run("rewrite-data-files", "usual")
    usual = time.monotonic() - started
    killed = 0
    for i in range(KILLS):
        name = f"t{i}"
        s3_lake.plain(name, files=6)
        rows = s3_lake.rows(name)
        process = s3_lake.start("rewrite-data-files", name)
        try:
            process.communicate(timeout=rng.uniform(0.05, 1.0) * usual)
        except subprocess.TimeoutExpired:
            cli.kill_and_wait(process)
            killed += 1
        check(s3_lake, name, rows)
        converge(s3_lake, "rewrite-data-files", name)
        check(s3_lake, name, rows)
        assert len(s3_lake.files(name)) == 1
    assert killed > 0


def test_two_at_once_beside_a_removal_of_orphans(s3_lake, tmp_path):
    with Faults(tmp_path / "faults", s3_lake.bucket.endpoint, 1, PLAN) as faults:
        s3_lake.endpoint = faults.endpoint
        s3_lake.plain(files=6)
        for number in range(4):
            s3_lake.append("t", *(plain_rows(1000 * number + 10 * i, 10) for i in range(5)))
            rows = s3_lake.rows("t")
            processes = [s3_lake.start(*args, "t") for args in
                         (("rewrite-data-files",), ("rewrite-data-files",),
                          ("remove-orphan-files",))]
            for process in processes:
                _, stderr = process.communicate(timeout=300)
                assert process.returncode >= 0, stderr
            check(s3_lake, "t", rows)
    s3_lake.endpoint = None
    converge(s3_lake, "rewrite-data-files", "t")
    check(s3_lake, "t", rows)


def test_no_secret_is_shown(s3_lake, tmp_path):
    """R267: neither in what commands print, nor in the audit log beside the catalog."""
    s3_lake.plain(files=6)
    said = [s3_lake.run(*args, "t").text for args in
            (("table-health",), ("rewrite-data-files",), ("expire-snapshots",),
             ("remove-orphan-files",))]
    other = {"AWS_SECRET_ACCESS_KEY": "another-secret"}
    denied = s3_lake.run("rewrite-data-files", "t", code=None, env=other)
    assert denied.code != cli.OK and "403" in denied.text
    said.append(denied.text)
    said += [path.read_bytes().decode("latin-1") for path in (tmp_path / "catalog").iterdir()
             if path.is_file()]
    assert any('"rewrite_data_files"' in text for text in said), "an audit log is among them"
    for text in said:
        assert SECRET not in text and "another-secret" not in text
    assert json.loads(said[0])


def test_our_clock_is_wrong(s3_lake):
    """R184, H5: five days ahead, nothing that is new counts as old, for the times of files are the
    store's."""
    s3_lake.plain(files=6)
    rows = s3_lake.rows("t")
    fresh = f"{s3_lake.load('t').location()}/data/somebody-is-about-to-commit-it.parquet"
    s3_lake.write_bytes(fresh, b"fresh")
    ahead = {"LD_PRELOAD": CLOCK_AHEAD, "CLOCK_AHEAD_SECONDS": str(5 * 86400)}
    run = s3_lake.run("remove-orphan-files", "t", code=None, env=ahead)
    assert fresh in s3_lake.keys(), run.text
    check(s3_lake, "t", rows)
