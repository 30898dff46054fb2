"""Trees in buckets, on a real S3 server: compacted with and without faults on the way, killed, and
by two at once. Whatever a command says of itself, the rows are there, each once (R183, R272, R276).

LITHIFY_S3_SEEDS sets how many seeds of faults are run (default 2), LITHIFY_S3_KILLS how many kills
(default 4), LITHIFY_S3_ROUNDS how many rounds of two compactors (default 8)."""

import datetime
import itertools
import os
import random
import subprocess
import time
import urllib.parse
import urllib.request

import cli
import judge
import pytest
import tree as trees
from s3_bucket import BUCKET, KEY, SECRET, Faults, S3Tree
from service_script import run_script
from tree import HOUR, log_table

SEEDS = range(1, int(os.environ.get("LITHIFY_S3_SEEDS", "2")) + 1)
KILLS = int(os.environ.get("LITHIFY_S3_KILLS", "4"))
ROUNDS = int(os.environ.get("LITHIFY_S3_ROUNDS", "8"))
PLAN = ("latency=0.03,reset_before=0.02,reset_after=0.03,reset_body=0.02,truncated=0.02,"
        "internal_error=0.02,internal_error_after=0.02,bad_gateway_after=0.02,slow_down=0.03,"
        "conflict=0.02,doubled=0.03,shortened=0.02")
TOLD = (cli.OK, cli.PARTITION_FAILED, cli.USAGE, cli.UNREADABLE)

prefixes = itertools.count()


@pytest.fixture
def s3(s3_service):
    return S3Tree(s3_service, f"t{next(prefixes)}")


class Compared:
    """A tree on disk as it was before it went up, and what is in the bucket by now."""

    def __init__(self, tree, s3, tmp_path):
        self.tree, self.s3, self.tmp_path = tree, s3, tmp_path
        self.looks = itertools.count()
        s3.upload(tree)

    def check(self, files_each=None):
        """Each row once. Returns where everything was downloaded to."""
        where = self.s3.download(self.tmp_path / f"look{next(self.looks)}")
        judge.assert_same_rows(trees.live_of_tree(self.tree.root), trees.live_of_tree(where),
                               polars=False)
        if files_each is not None:
            for partition in trees.partitions(where):
                assert len(trees.live(partition)) == files_each
        return where


@pytest.fixture
def compared(tree, s3, tmp_path):
    """Two partitions of several files."""
    tree.fill(files=8, rows=60)
    tree.fill(files=5, rows=40, tenant="globex")
    return Compared(tree, s3, tmp_path)


def converge(s3, *args, endpoint=None, tries=25):
    """Runs a command until it says that all is well."""
    for _ in range(tries):
        run = s3.run(*args, code=None, endpoint=endpoint)
        assert run.code in TOLD, (run.code, run.text)
        if run.code == cli.OK:
            return run
    raise AssertionError(f"{args}: not once well in {tries} tries; the last: {run.text}")


def test_every_command(compared, s3):
    before = s3.keys()
    dry = cli.partitions(s3.run("compact", "--dry-run", "--json").json)
    assert len(dry) == 2
    assert s3.keys() == before, "a dry run wrote"
    s3.run("compact")
    compared.check(files_each=1)
    assert [key for key in s3.keys() if "probe" in key or key.endswith(".tmp")] == []
    s3.run("verify")
    s3.run("audit")
    report = s3.run("compact", "--json").json
    assert all(item["outcome"] == "skipped" for item in report["partitions"])
    partition = s3.root + "/" + compared.tree.key(compared.tree.partition())
    run = cli.run("files", partition, "--root", s3.root, env=s3.env())
    (live,) = run.out.splitlines()
    assert live.startswith(partition + "/")
    status = s3.run("status", "--json").json
    assert {item["live_files"] for item in status["partitions"]} == {1}
    # The inputs are within their grace.
    assert len([key for key in s3.keys("data") if key.endswith(".parquet")]) == 13 + 2


@pytest.mark.parametrize("scheme", ["s3a", "s3n"])
def test_other_spellings(compared, s3, scheme):
    """I17."""
    cli.run("compact", f"{scheme}://{BUCKET}/{s3.prefix}", env=s3.env())
    compared.check(files_each=1)


@pytest.mark.parametrize("seed", SEEDS)
def test_faults(compared, s3, tmp_path, seed):
    """No lost row, no double row, no live file removed, whatever is said on the way."""
    with Faults(tmp_path / "faults", s3.endpoint, seed, PLAN) as faults:
        converge(s3, "compact", endpoint=faults.endpoint)
        compared.check(files_each=1)
        converge(s3, "gc", endpoint=faults.endpoint)
        converge(s3, "verify", endpoint=faults.endpoint)
    assert faults.done["requests"] > 100
    for kind in ("reset_after", "doubled", "slow_down", "truncated"):
        assert faults.done[kind] > 0, faults.done
    compared.check(files_each=1)
    s3.run("verify")
    s3.run("audit")


@pytest.mark.parametrize("kind", ["reset_after", "internal_error_after", "bad_gateway_after",
                                  "doubled", "conflict", "truncated"])
@pytest.mark.parametrize("part", ["manifest.json", ".parquet", "_lithify/audit/"])
def test_a_write_whose_answer_is_lost(compared, s3, tmp_path, kind, part):
    """H5: every second write of a manifest, an output or the audit log."""
    with Faults(tmp_path / "faults", s3.endpoint, 1, f"{kind}@{part}=0.5x6") as faults:
        converge(s3, "compact", endpoint=faults.endpoint, tries=8)
    assert faults.done[kind] > 0
    compared.check(files_each=1)
    s3.run("verify")
    s3.run("audit")


def test_stale_listings(compared, s3, tmp_path):
    """A listing from before the last changes never costs a row."""
    with Faults(tmp_path / "faults", s3.endpoint, 1, "stale_list=0.7") as faults:
        for _ in range(3):
            converge(s3, "compact", endpoint=faults.endpoint)
            converge(s3, "gc", endpoint=faults.endpoint)
            compared.check()
    assert faults.done["stale_list"] > 0
    s3.run("compact")
    compared.check(files_each=1)


@pytest.mark.parametrize("skew", [-86400, -7200, 7200])
def test_the_servers_clock_is_wrong(compared, s3, tmp_path, skew):
    """T23: new files may look a day old, and beyond any grace: nothing is removed."""
    before = s3.keys("data")
    with Faults(tmp_path / "faults", s3.endpoint, 1, "", skew=skew) as faults:
        processes = [s3.start(command, endpoint=faults.endpoint)
                     for command in ("compact", "gc", "compact", "gc")]
        for process in processes:
            _, stderr = process.communicate(timeout=300)
            assert process.returncode in (cli.OK, cli.PARTITION_FAILED), stderr
        compared.check(files_each=1)
        s3.run("gc", code=None, endpoint=faults.endpoint)
    compared.check(files_each=1)
    assert set(before) <= set(s3.keys("data"))


@pytest.mark.parametrize("seed", SEEDS)
def test_collectors_of_what_is_old(compared, s3, tmp_path, seed):
    """T23: everything looks two hours old, outputs that are being written, too; with faults."""
    with Faults(tmp_path / "faults", s3.endpoint, seed, PLAN, age=7200) as faults:
        for _ in range(2):
            processes = [s3.start(command, endpoint=faults.endpoint)
                         for command in ("compact", "gc", "compact", "gc")]
            for process in processes:
                _, stderr = process.communicate(timeout=300)
                assert process.returncode in TOLD, stderr
            compared.check()
        converge(s3, "compact", endpoint=faults.endpoint)
    compared.check(files_each=1)


def test_stale_uploads(compared, s3, tmp_path):
    """T28: of ours and old: aborted by gc; others', and new ones: not."""
    partition = compared.tree.key(compared.tree.partition())
    ours = f"{partition}/{trees.uuid7(HOUR)}.parquet"
    theirs = f"elsewhere/{trees.uuid7(HOUR)}.parquet"
    for key in (ours, f"{partition}/somebody.bin", theirs):
        s3.begin_upload(key)
    assert len(s3.uploads()) == 3
    s3.run("gc")
    assert len(s3.uploads()) == 3
    with Faults(tmp_path / "faults", s3.endpoint, 1, "", age=7200) as faults:
        assert ours in s3.run("gc", "--dry-run", endpoint=faults.endpoint).out
        assert len(s3.uploads()) == 3
        s3.run("gc", endpoint=faults.endpoint)
    assert s3.uploads() == [f"{partition}/somebody.bin", theirs]
    compared.check()


def test_requests_are_too_late(compared, s3, tmp_path):
    """A server that holds our clock for wrong is understood, and named."""
    with Faults(tmp_path / "faults", s3.endpoint, 1, "too_skewed=1") as faults:
        run = s3.run("compact", code=None, endpoint=faults.endpoint)
    assert run.code not in (cli.OK, None) and run.code > 0
    assert "RequestTimeTooSkewed" in run.text
    compared.check()


def test_killed(compared, s3):
    """R272: SIGKILL at any moment; a re-run converges."""
    rng = random.Random(22)
    first = S3Tree(s3.endpoint, s3.prefix + "-usual")
    first.upload(compared.tree)
    started = time.monotonic()
    first.run("compact")
    usual = time.monotonic() - started
    killed = 0
    for i in range(KILLS):
        again = S3Tree(s3.endpoint, f"{s3.prefix}-k{i}")
        world = Compared(compared.tree, again, compared.tmp_path / f"k{i}")
        for _ in range(2):
            process = again.start("compact")
            try:
                process.communicate(timeout=rng.uniform(0.05, 0.9) * usual)
            except subprocess.TimeoutExpired:
                cli.kill_and_wait(process)
                killed += 1
        world.check()
        # A claim of a process of this host that is gone holds nobody up.
        converge(again, "compact")
        world.check(files_each=1)
        again.run("verify")
        again.run("audit")
    assert killed > 0


def test_two_compactors(s3, tree):
    """Two at once on what a writer has just added, again and again; every row once after each."""
    partition = tree.key(tree.partition())
    expected = {}
    for number in range(ROUNDS):
        where = S3Tree(s3.endpoint, f"{s3.prefix}-{number // 20}")
        if number % 20 == 0:
            expected = {}
        for i in range(5):
            table = log_table("acme", HOUR, 4, seed=f"{number}.{i}")
            created = HOUR + datetime.timedelta(seconds=number * 10 + i)
            where.write(f"{partition}/{trees.uuid7(created)}.parquet", table)
            expected.update((row, 1) for row in table.column("row").to_pylist())
        processes = [where.start("compact", "--jobs", "1") for _ in range(2)]
        for process in processes:
            _, stderr = process.communicate(timeout=300)
            assert process.returncode in (cli.OK, cli.PARTITION_FAILED), stderr
        assert where.rows(partition) == expected, f"round {number}"
        where.run("compact")
        assert len(where.live(partition)) <= 2
        assert where.rows(partition) == expected, f"round {number}, after a third"
    where.run("verify")
    where.run("audit")


def test_two_compactors_with_faults(compared, s3, tmp_path):
    """The same with all that may go wrong on the way of both."""
    with Faults(tmp_path / "faults", s3.endpoint, 77, PLAN) as faults:
        for _ in range(3):
            processes = [s3.start(command, endpoint=faults.endpoint)
                         for command in ("compact", "compact", "gc")]
            for process in processes:
                _, stderr = process.communicate(timeout=300)
                assert process.returncode in TOLD, stderr
            compared.check()
    converge(s3, "compact")
    compared.check(files_each=1)


def test_a_store_that_breaks_its_word(tree, tmp_path):
    """Q2: refused before anything is written."""
    tree.fill(files=6, rows=20)
    directory = tmp_path / "wrong"
    endpoint = run_script("gofakes3.sh", "start", directory)
    try:
        wrong = S3Tree(endpoint, "t")
        for path in tree.files():
            # It asks for no signature, and knows no upload in chunks, as pyarrow's.
            urllib.request.urlopen(urllib.request.Request(
                f"{endpoint}/{BUCKET}/t/{urllib.parse.quote(str(path.relative_to(tree.root)))}",
                data=path.read_bytes(), method="PUT")).close()
        before = wrong.keys()
        assert len(before) == 6
        run = wrong.run("compact", code=cli.USAGE)
        assert "does not honour conditional writes" in run.text
        assert wrong.keys() == before
    finally:
        run_script("gofakes3.sh", "stop", directory)


def test_no_secret_is_shown(compared, s3, tmp_path):
    """R267: neither in what commands print, nor in what they leave behind."""
    token = "a-token-of-a-session"
    said = []
    for args in (("compact", "--json"), ("compact",), ("status", "--json"), ("verify",), ("gc",),
                 ("audit", "--json"), ("audit",), ("config",)):
        said.append(s3.run(*args).text)
    said.append(s3.run("compact", code=None, env={"AWS_SECRET_ACCESS_KEY": "another-secret"}).text)
    assert "403" in said[-1]
    said.append(s3.run("compact", code=None, env={"AWS_SESSION_TOKEN": token}).text)
    said.append(s3.run("compact", code=None, env={"AWS_ACCESS_KEY_ID": ""}).text)
    said.append(s3.run("status", "--set", f"s3.access_key_id={KEY}", "--set",
                       "s3.secret_access_key=another-secret", code=None).text)
    with Faults(tmp_path / "faults", s3.endpoint, 5, "reset_after=1") as faults:
        said.append(s3.run("status", code=None, endpoint=faults.endpoint).text)
    for text in said:
        for secret in (SECRET, "another-secret", token):
            assert secret not in text
    for path in s3.download(tmp_path / "left").rglob("*"):
        if path.is_file():
            content = path.read_bytes()
            for secret in (SECRET, "another-secret", token):
                assert secret.encode() not in content, path
