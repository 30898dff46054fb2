"""The command line: exit codes, JSON, filters, dry runs, configuration errors, stopping."""

import datetime
import json
import os
import pathlib
import random
import re
import resource
import signal
import subprocess
import sys
import time
import uuid

import cli
import judge
import pyarrow as pa
import pyarrow.compute  # noqa: F401  pa.compute
import pyarrow.parquet as pq
import pytest
import tree as trees
from tree import HOUR, log_table, minimal_table

NEXT_HOUR = HOUR + datetime.timedelta(hours=1)


def test_exit_codes(tree, lithify):
    tree.fill(files=6, rows=10)
    lithify("compact", code=cli.OK)
    lithify("status", code=cli.OK)
    lithify("verify", code=cli.OK)
    lithify("gc", code=cli.OK)
    lithify("audit", code=cli.OK)
    cli.run("nonsense", code=cli.USAGE)
    cli.run("compact", code=cli.USAGE)
    lithify("compact", "--no-such-flag", code=cli.USAGE)
    cli.run("--help", code=cli.OK)
    cli.run("--version", code=cli.OK)


def test_json_reports(tree, lithify):
    tree.fill(files=6, rows=10)
    tree.fill(files=1, rows=10, hour=NEXT_HOUR)
    report = cli.partitions(lithify("compact", "--json").json)
    assert set(report) == {tree.key(tree.partition()), tree.key(tree.partition(hour=NEXT_HOUR))}
    done = report[tree.key(tree.partition())]
    assert done["outcome"] == "committed"
    assert done["rows"] == 60
    assert done["generation"] == trees.generation(tree.partition())
    assert done["outputs"] == [path.name for path in trees.live(tree.partition())]
    assert report[tree.key(tree.partition(hour=NEXT_HOUR))]["verdict"] == "irreducible"

    status = cli.partitions(lithify("status", "--json").json)[tree.key(tree.partition())]
    assert status["live_files"] == 1
    assert status["generation"] == trees.generation(tree.partition())
    for command in ("verify", "gc", "audit"):
        assert lithify(command, "--json").json is not None


def test_dry_run_changes_nothing(tree, lithify):
    """Every verdict with the number that decided, and not one byte or time stamp moved."""
    tree.fill(files=6, rows=10)
    tree.fill(files=1, rows=10, hour=NEXT_HOUR)
    now = datetime.datetime.now(datetime.timezone.utc).replace(minute=0, second=0, microsecond=0)
    tree.fill(files=6, rows=10, hour=now)
    before = trees.tree_hash(tree.root)
    report = cli.partitions(lithify("compact", "--dry-run", "--json").json)
    assert trees.tree_hash(tree.root) == before
    verdicts = {key: item["verdict"] for key, item in report.items()}
    assert verdicts == {tree.key(tree.partition()): "candidate",
                        tree.key(tree.partition(hour=NEXT_HOUR)): "irreducible",
                        tree.key(tree.partition(hour=now)): "not_sealed"}
    planned = report[tree.key(tree.partition())]
    assert planned["outcome"] == "planned"
    assert "6" in planned["reason"]
    text = lithify("compact", "--dry-run").text
    assert trees.tree_hash(tree.root) == before
    assert "6" in text and "hour=05" in text

    lithify("gc", "--dry-run")
    lithify("status")
    lithify("verify")
    assert trees.tree_hash(tree.root) == before


def test_filters(tree, lithify):
    for tenant in ("acme", "globex"):
        for hour in (HOUR, NEXT_HOUR):
            tree.fill(files=6, rows=10, tenant=tenant, hour=hour)

    def compacted():
        return {(tenant, hour) for tenant in ("acme", "globex") for hour in (HOUR, NEXT_HOUR)
                if len(trees.live(tree.partition(tenant, hour))) == 1}

    lithify("compact", "--tenant", "nobody")
    assert compacted() == set()
    lithify("compact", "--tenant", "acme", "--since", f"{NEXT_HOUR:%Y-%m-%dT%H:%M:%SZ}")
    assert compacted() == {("acme", NEXT_HOUR)}
    lithify("compact", "--partition", tree.key(tree.partition("globex", HOUR)))
    assert compacted() == {("acme", NEXT_HOUR), ("globex", HOUR)}
    lithify("compact", "--tenant", "acme")
    assert compacted() == {("acme", NEXT_HOUR), ("globex", HOUR), ("acme", HOUR)}


@pytest.mark.parametrize("override, key, range_hint", [
    ("compaction.min_files=0", "min_files", "1"),
    ("compaction.gc_grace=1s", "gc_grace", "1min"),
    ("compaction.min_filez=5", "min_filez", "min_files"),
    ("output.codec=lzo", "output.codec", "zstd"),
    ("limits.memory=1KiB", "limits.memory", "256MiB"),
])
def test_config_errors_name_key_and_range(tree, lithify, override, key, range_hint):
    """R048: unknown keys and values out of range name the key and what is allowed."""
    tree.fill(files=6, rows=10)
    before = trees.tree_hash(tree.root)
    result = lithify("compact", "--set", override, code=cli.USAGE)
    assert key in result.err
    assert range_hint in result.err
    assert trees.tree_hash(tree.root) == before


def test_config_file_environment_flags(tree, lithify, tmp_path):
    """R044: the file, above it the environment, above both the flags."""
    tree.fill(files=6, rows=10)
    config = tmp_path / "lithify.toml"
    config.write_text("[compaction]\ngrace = \"3650d\"\n", encoding="utf-8")
    lithify("compact", "--config", config, code=cli.USAGE)  # Beyond the allowed 30 days.
    config.write_text("[compaction]\nsmall_file_bytes = 1\nmin_files = 7\n", encoding="utf-8")
    lithify("compact", "--config", config)
    assert len(trees.live(tree.partition())) == 6
    lithify("compact", "--config", config, env={"LITHIFY_COMPACTION__MIN_FILES": "5"},)
    assert len(trees.live(tree.partition())) == 1

    tree.fill(files=6, rows=10, hour=NEXT_HOUR)
    lithify("compact", "--config", config, "--set", "compaction.min_files=9",
            env={"LITHIFY_COMPACTION__MIN_FILES": "2"})
    assert len(trees.live(tree.partition(hour=NEXT_HOUR))) == 6


def test_unknown_key_in_file_names_line(tree, lithify, tmp_path):
    config = tmp_path / "bad.toml"
    config.write_text("[compaction]\nmin_files = 3\nmin_file = 3\n\n[limitz]\njobs = 1\n",
                      encoding="utf-8")
    result = lithify("compact", "--config", config, code=cli.USAGE)
    assert "min_file" in result.err and "limitz" in result.err  # All problems at once (R043).
    assert "bad.toml" in result.err


def test_config_prints_the_effective_configuration(tree):
    out = cli.run("config", "--set", "compaction.min_files=9").out
    import tomllib
    effective = tomllib.loads(out)
    assert effective["compaction"]["min_files"] == 9
    assert effective["layout"]["preset"] == "ourios"


def test_own_layout(tmp_path):
    """Any hive layout is configuration: here days and a region, with other column names."""
    root = tmp_path / "lake"
    partition = root / "metrics" / "region=eu" / "date=2025-03-04"
    partition.mkdir(parents=True)
    start = int(datetime.datetime(2025, 3, 4, tzinfo=trees.UTC).timestamp()) * 10**9
    for i in range(6):
        pq.write_table(pa.table({"zone": ["eu"] * 10, "at": pa.array(range(start, start + 10)),
                                 "v": pa.array(range(10))}), partition / f"part-{i}.parquet")
    config = tmp_path / "lithify.toml"
    config.write_text('[layout]\npreset = "none"\n\n'
                      '[[series]]\nname = "metrics"\nprefix = "metrics"\n'
                      'partition_columns = ["region", "date"]\ntenant = "region"\ndate = "date"\n'
                      'check_tenant_column = "zone"\ncheck_time_columns = ["at"]\n',
                      encoding="utf-8")
    before = judge.pyarrow_rows(trees.live(partition))
    cli.run("compact", root, "--config", config)
    assert len(trees.live(partition)) == 1
    assert judge.pyarrow_rows(trees.live(partition)) == before


def interrupted(tree, *args):
    """Starts a sweep, interrupts it at work, and returns the seconds from the signal to its end."""
    process = cli.start("compact", tree.root, *args)
    time.sleep(0.7)
    assert process.poll() is None, "the sweep was over before it could be interrupted"
    asked = time.monotonic()
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=30)
    took = time.monotonic() - asked
    assert process.returncode == cli.INTERRUPTED, err
    return took


def stops_within_a_second(tree, *args):
    """Machines are shared: one of three tries must do it."""
    took = []
    while len(took) < 3 and not (took and took[-1] <= 1.0):
        took.append(interrupted(tree, *args))
    assert took[-1] <= 1.0, took


def test_interrupt_stops_within_a_second(tree, lithify):
    """Ctrl-C leaves everything right: readers see all rows, and a re-run finishes the work. Here
    the sweep mostly waits, for its bounded rate."""
    for i in range(24):
        tree.fill(files=5, rows=1500, hour=HOUR + datetime.timedelta(hours=i), body_bytes=400)
    expected = judge.row_count(trees.live_of_tree(tree.root))
    stops_within_a_second(tree, "--jobs", "1", "--io-limit", "4MiB")
    assert judge.row_count(trees.live_of_tree(tree.root)) == expected

    lithify("compact")
    live = trees.live_of_tree(tree.root)
    assert len(live) == 24
    rows = judge.pyarrow_rows(live, ["row"])
    assert len(rows) == expected and sum(rows.values()) == expected


def test_interrupt_stops_a_loaded_run_within_a_second(tree):
    """Here it computes, on one large group: stopping does not wait for a column or a row group."""
    count = 1_000_000
    for i in range(5):
        rng = random.Random(i)
        tree.write(minimal_table("acme", HOUR, **{
            f"c{c}": pa.Array.from_buffers(pa.int64(), count,
                                           [None, pa.py_buffer(rng.randbytes(8 * count))])
            for c in range(4)}), use_dictionary=False, compression="lz4", row_group_size=count)
    before = trees.contents(tree.partition())
    stops_within_a_second(tree, "--jobs", "2", "--set", "output.codec_level=12")
    assert trees.contents(tree.partition()) == before  # No manifest, no temporary.


@pytest.mark.local_disk("the root of a tree is not looked for in a bucket")
def test_files_lists_the_live_set(tree, lithify):
    tree.fill(files=6, rows=10)
    lithify("compact")
    out = cli.run("files", tree.partition()).out.split("\n")
    listed = [pathlib.Path(line) for line in out if line]
    assert [path.name for path in listed] == [path.name for path in trees.live(tree.partition())]
    assert all(path.exists() for path in listed)
    as_json = json.loads(cli.run("files", tree.partition(), "--json").out)
    assert [item["path"] for item in as_json["files"]] == [str(path) for path in listed]
    assert as_json["generation"] == trees.generation(tree.partition())


def readme_one_liners():
    """The one-liners of the README for reading the live files, by engine."""
    text = (cli.REPOSITORY / "README.md").read_text(encoding="utf-8")
    return dict(re.findall(r"<!-- one-liner: (\w+) -->\n```\w+\n(.*?)\n```", text, re.S))


@pytest.mark.local_disk("what the README says of trees on disk")
@pytest.mark.parametrize("engine", ["duckdb", "polars", "pyarrow"])
def test_files_one_liners_run(tree, lithify, engine):
    """What the README tells readers to type works, on a partition that has dead files in it."""
    tree.fill(files=6, rows=10)
    lithify("compact")
    tree.write(log_table("acme", HOUR, 99, seed="not adopted yet"))
    line = readme_one_liners()[engine].replace("PARTITION", str(tree.partition()))
    env = dict(os.environ, PATH=f"{os.path.dirname(cli.BINARY)}:{os.path.dirname(sys.executable)}:"
                                f"{os.environ['PATH']}")
    done = subprocess.run(["bash", "-euo", "pipefail", "-c", line], capture_output=True, text=True,
                          env=env, timeout=120, check=False, stdin=subprocess.DEVNULL)
    assert done.returncode == 0, done.stderr
    assert re.search(r"\b60\b", done.stdout), done.stdout


def test_status_text(tree, lithify):
    tree.fill(files=6, rows=10)
    text = lithify("status").out
    assert "acme" in text and "hour=05" in text


def test_audit_has_the_history(tree, lithify):
    """Intent before, outcome after, both with the facts (R243, T25)."""
    inputs = [path.name for path in tree.fill(files=6, rows=10)]
    lithify("compact")
    events = lithify("audit", "--json").json["records"]
    phases = [event["phase"] for event in events]
    assert phases.index("intent") < phases.index("committed")
    done = next(event for event in events if event["phase"] == "committed")
    assert sorted(done["inputs"]) == sorted(inputs)
    assert done["outputs"] == [path.name for path in trees.live(tree.partition())]
    assert done["rows"] == 60
    assert done["generation"] == trees.generation(tree.partition())


EVENT_SCHEMA = pa.schema([
    pa.field("tenant_id", pa.string(), nullable=False),
    pa.field("timestamp", pa.timestamp("ns", "UTC"), nullable=False),
    pa.field("event_kind", pa.uint8(), nullable=False),
    pa.field("event_type", pa.string(), nullable=False),
    pa.field("reason", pa.string()),
    pa.field("compaction_partition", pa.string()),
    pa.field("compaction_input_files", pa.list_(pa.field("element", pa.string()))),
    pa.field("compaction_output_file", pa.string()),
    pa.field("compaction_output_files", pa.list_(pa.field("element", pa.string()))),
    pa.field("compaction_generation", pa.uint64()),
    pa.field("compaction_rows", pa.uint64()),
])


def event_files(tree, tenant="acme"):
    return sorted(tree.root.glob(f"audit/tenant_id={tenant}/year=*/month=*/day=*/*.parquet"))


def test_audit_series_gets_an_event_file(tree, lithify):
    """R243-R245: one event per commit, with the additive columns, as Parquet, in the audit series
    of the tenant, in the partition of the day; and the audit log in order."""
    inputs = [path.name for path in tree.fill(files=6, rows=10)]
    begin = datetime.datetime.now(datetime.timezone.utc)
    lithify("compact")
    end = datetime.datetime.now(datetime.timezone.utc)
    files = event_files(tree)
    assert len(files) == 1
    assert uuid.UUID(files[0].stem).version == 7

    table = pq.ParquetFile(files[0]).read()
    assert table.schema.equals(EVENT_SCHEMA), table.schema
    nanos = table.column("timestamp").cast(pa.int64())[0].as_py()
    assert begin.timestamp() - 1e-3 <= nanos / 1e9 <= end.timestamp()
    day = datetime.datetime.fromtimestamp(nanos / 1e9, datetime.timezone.utc)
    assert files[0].parent.relative_to(tree.root).as_posix() == \
        f"audit/tenant_id=acme/{day:year=%Y/month=%m/day=%d}"
    output = trees.live(tree.partition())[0].name
    assert table.drop_columns(["timestamp"]).to_pylist() == [{
        "tenant_id": "acme", "event_kind": 3, "event_type": "compaction", "reason": None,
        "compaction_partition": "year=2025/month=03/day=04/hour=05",
        "compaction_input_files": sorted(inputs), "compaction_output_file": output,
        "compaction_output_files": [output],
        "compaction_generation": trees.generation(tree.partition()), "compaction_rows": 60}]

    records = lithify("audit", "--json").json["records"]
    assert [record["phase"] for record in records] == ["intent", "committed", "emitted"]
    assert len({record["job_id"] for record in records}) == 1
    assert [record["seq"] for record in records] == sorted(record["seq"] for record in records)
    assert {record["partition"].rstrip("/") for record in records} == {tree.key(tree.partition())}
    lithify("compact")  # Nothing to do: no second event.
    assert event_files(tree) == files


def move_events_back(tree, days):
    """Makes today's event files those of an earlier day: in another directory, with other times."""
    moved = []
    for path in event_files(tree):
        table = pq.ParquetFile(path).read()
        at = table.schema.get_field_index("timestamp")
        earlier = pa.compute.subtract(table.column(at).cast(pa.int64()), days * 86400 * 10**9)
        table = table.set_column(at, table.schema.field(at), earlier.cast(table.schema.types[at]))
        when = datetime.datetime.now(datetime.timezone.utc) - datetime.timedelta(days=days)
        where = tree.root / f"audit/tenant_id=acme/{when:year=%Y/month=%m/day=%d}"
        where.mkdir(parents=True, exist_ok=True)
        pq.write_table(table, where / path.name)
        path.unlink()
        moved.append(where / path.name)
    trees.age(tree.root, days * 86400)
    return moved


def test_audit_partitions_compact_themselves(tree, lithify):
    """The events of one day, from two sweeps, become one file on a later day, like any data."""
    for hour in range(3):
        tree.fill(files=5, rows=10, hour=HOUR + datetime.timedelta(hours=hour))
    lithify("compact")
    for hour in range(3, 6):
        tree.fill(files=5, rows=10, hour=HOUR + datetime.timedelta(hours=hour))
    lithify("compact")
    assert len(event_files(tree)) == 6
    assert not list(tree.root.glob("audit/**/manifest.json"))  # Not sealed: the day goes on.
    moved = move_events_back(tree, days=2)
    assert len({path.parent for path in moved}) == 1
    before = pa.concat_tables([pq.ParquetFile(path).read() for path in moved])

    report = lithify("compact", "--json").json
    audit = moved[0].parent
    live = trees.live(audit)
    assert len(live) == 1 and live[0] not in moved
    table = pq.ParquetFile(live[0]).read()
    assert table.schema.equals(EVENT_SCHEMA), table.schema
    order = [("compaction_partition", "ascending")]
    assert table.sort_by(order).equals(before.sort_by(order))
    assert cli.partitions(report)[tree.key(audit)]["outcome"] == "committed"
    # That is a compaction, too: it has an event of its own, today, and then there is rest.
    new = [path for path in event_files(tree) if path.parent != audit]
    assert len(new) == 1
    event = pq.ParquetFile(new[0]).read().to_pylist()[0]
    assert event["compaction_partition"] == audit.relative_to(audit.parents[2]).as_posix()
    assert event["compaction_rows"] == 6
    lithify("compact")
    assert [path for path in event_files(tree) if path.parent != audit] == new
    lithify("verify")


def test_verify_finds_damage(tree, lithify):
    """A changed byte in a compacted file is found, and the exit code says so."""
    tree.fill(files=6, rows=200)
    lithify("compact")
    lithify("verify", code=cli.OK)
    path = trees.live(tree.partition())[0]
    data = bytearray(path.read_bytes())
    data[len(data) // 3] ^= 0x40
    path.write_bytes(data)
    result = lithify("verify", code=cli.MISMATCH)
    assert path.name in result.text


def test_r267_no_core_is_left(tree, tmp_path):
    """A core file would hold the keys of a bucket."""
    def left_by(command):
        process = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=tmp_path,
            env=cli.environment(), preexec_fn=lambda: resource.setrlimit(
                resource.RLIMIT_CORE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY)))
        time.sleep(0.5)
        process.send_signal(signal.SIGABRT)
        _, status = os.waitpid(process.pid, 0)
        process.returncode = -os.WTERMSIG(status)
        assert os.WTERMSIG(status) == signal.SIGABRT
        return os.WCOREDUMP(status)

    try:
        dumps = left_by(["sleep", "60"])
    except subprocess.SubprocessError:
        pytest.skip("no core files may be left here")
    if not dumps:
        pytest.skip("this machine leaves no core files")
    assert not left_by(cli.command_line("compact", tree.root, "--watch"))
