"""Damage, hostility and full disks: a clear error for that partition (what, where, why, what next),
the others go on, the exit code says so, and nothing is lost (R307-R314)."""

import datetime
import json
import os
import shutil
import subprocess

import cli
import judge
import pyarrow.parquet as pq
import pytest
import tree as trees
from tree import HOUR, log_table, minimal_table

GOOD_HOUR = HOUR + datetime.timedelta(hours=1)


def compact_with_one_bad_partition(tree, lithify, code=cli.PARTITION_FAILED):
    """The good partition is compacted; the bad one keeps every byte it had."""
    tree.fill(files=6, rows=10, hour=GOOD_HOUR)
    before = trees.contents(tree.partition())
    result = lithify("compact", code=code)
    after = trees.contents(tree.partition())
    if "manifest.json" not in before:
        after.pop("manifest.json", None)  # A bootstrap names the same files.
    assert after == before
    assert len(trees.live(tree.partition(hour=GOOD_HOUR))) == 1
    assert judge.row_count(trees.live(tree.partition(hour=GOOD_HOUR))) == 60
    return result


def truncated(data):
    return data[:-100]


def no_tail(data):
    return data[:len(data) // 2]


def not_parquet(_):
    return b"this is a text file\n" * 100


def garbage_footer(data):
    length = int.from_bytes(data[-8:-4], "little")
    return data[:-8 - length] + os.urandom(length) + data[-8:]


def footer_length_beyond_file(data):
    return data[:-8] + (2**31 - 1).to_bytes(4, "little") + b"PAR1"


def empty(_):
    return b""


@pytest.mark.parametrize("damage", [empty, truncated, no_tail, not_parquet, garbage_footer,
                                    footer_length_beyond_file])
def test_damaged_file(tree, lithify, damage):
    """P20, R309: a listed file that is no readable Parquet. The file is named."""
    paths = tree.fill(files=6, rows=10)
    paths[3].write_bytes(damage(paths[3].read_bytes()))
    old = paths[0].stat().st_mtime - 7200
    for path in paths:
        os.utime(path, (old, old))  # Not one that is still being written.
    result = compact_with_one_bad_partition(tree, lithify)
    assert paths[3].name in result.text


@pytest.mark.parametrize("position", [0.05, 0.2, 0.4, 0.6, 0.8])
def test_bit_flip_in_a_page_with_checksum(tree, lithify, position):
    """Pages that carry a checksum are checked: a flipped bit is found before any commit."""
    for i in range(5):
        tree.write(log_table("acme", HOUR, 200, seed=i), compression="none", use_dictionary=False)
    path = tree.write(log_table("acme", HOUR, 200, seed=9), compression="none",
                      use_dictionary=False, write_page_checksum=True)
    metadata = pq.ParquetFile(path).metadata.row_group(0)
    chunk = metadata.column(metadata.num_columns - 2)  # body
    data = bytearray(path.read_bytes())
    # Beyond the page's header, which is not covered by its checksum.
    data[chunk.data_page_offset + 200 + int((chunk.total_compressed_size - 250) * position)] ^= 1
    path.write_bytes(data)
    result = compact_with_one_bad_partition(tree, lithify)
    assert path.name in result.text


def test_bit_flips_never_change_what_comes_out_unnoticed(tree, lithify):
    """Compressed pages without checksum: each flip is either refused or harmless; a partition that
    was refused keeps its files."""
    hours = [HOUR + datetime.timedelta(hours=i) for i in range(12)]
    for i, hour in enumerate(hours):
        paths = tree.fill(files=5, rows=50, hour=hour, write_page_checksum=True)
        data = bytearray(paths[2].read_bytes())
        data[4 + (len(data) - 12) * i // 12] ^= 1 << (i % 8)
        paths[2].write_bytes(data)
    before = {hour: trees.live(tree.partition(hour=hour)) for hour in hours}
    kept = trees.contents(tree.root)
    lithify("compact", code=None)
    after = trees.contents(tree.root)
    for hour in hours:
        live = trees.live(tree.partition(hour=hour))
        if live == before[hour]:
            continue
        try:
            expected = judge.pyarrow_rows(before[hour])
        except Exception:  # noqa: BLE001  Our reader is stricter: then nothing may be rewritten.
            pytest.fail(f"{hour}: compacted although an input is unreadable")
        assert judge.pyarrow_rows(live) == expected
    assert {name for name in kept if name.endswith(".parquet")} <= set(after)


HOSTILE_MANIFESTS = {
    "not json": "{",
    "empty": "",
    "wrong root": "[]",
    "traversal": '{"generation": 2, "files": ["../../tenant_id=globex/x.parquet"]}',
    "absolute": '{"generation": 2, "files": ["/etc/x.parquet"]}',
    "subdirectory": '{"generation": 2, "files": ["a/x.parquet"]}',
    "backslash": '{"generation": 2, "files": ["a\\\\x.parquet"]}',
    "duplicate": '{"generation": 2, "files": ["x.parquet", "x.parquet"]}',
    "suffix": '{"generation": 2, "files": ["x.PARQUET"]}',
    "hidden": '{"generation": 2, "files": [".x.parquet"]}',
    "nul": '{"generation": 2, "files": ["x\\u0000.parquet"]}',
    "number": '{"generation": 2, "files": [1]}',
    "no files": '{"generation": 2}',
    "no generation": '{"files": []}',
    "zero": '{"generation": 0, "files": []}',
    "negative": '{"generation": -1, "files": []}',
    "fraction": '{"generation": 1.5, "files": []}',
    "too large": '{"generation": 18446744073709551616, "files": []}',
    "two generations": '{"generation": 1, "generation": 2, "files": []}',
    "deep": "[" * 100000,
    "binary": "\x00\x01\x02",
}


@pytest.mark.parametrize("name", HOSTILE_MANIFESTS)
def test_hostile_manifest(tree, lithify, name):
    """R217, R308: an error for that partition, never a fallback to the listing, nothing removed."""
    tree.fill(files=6, rows=10)
    (tree.partition() / "manifest.json").write_text(HOSTILE_MANIFESTS[name], encoding="utf-8")
    result = compact_with_one_bad_partition(tree, lithify)
    assert "manifest.json" in result.text
    before = trees.contents(tree.partition())
    lithify("gc", code=None)
    assert trees.contents(tree.partition()) == before


def test_manifest_that_names_a_missing_file(tree, lithify):
    """A file that the live set needs is gone: loud, and the others are not touched."""
    paths = tree.fill(files=6, rows=10)
    (tree.partition() / "manifest.json").write_text(
        json.dumps({"generation": 3, "files": [path.name for path in paths]}), encoding="utf-8")
    paths[1].unlink()
    result = compact_with_one_bad_partition(tree, lithify)
    assert paths[1].name in result.text
    lithify("verify", code=cli.MISMATCH)


def test_unknown_manifest_members_are_kept(tree, lithify):
    """R218: another writer's keys survive our generations."""
    paths = tree.fill(files=6, rows=10)
    (tree.partition() / "manifest.json").write_text(
        json.dumps({"generation": 41, "files": [path.name for path in paths],
                    "ttl": {"days": [1, 2]}}), encoding="utf-8")
    lithify("compact")
    manifest = trees.read_manifest(tree.partition())
    assert manifest["generation"] == 43  # Taking over is a generation of its own.
    assert manifest["ttl"] == {"days": [1, 2]}
    assert len(manifest["files"]) == 1


def test_empty_live_set_is_legal(tree, lithify):
    """Q7: a manifest without files means no rows; nothing is resurrected."""
    tree.fill(files=6, rows=10)
    (tree.partition() / "manifest.json").write_text('{"generation": 5, "files": []}',
                                                    encoding="utf-8")
    future = datetime.datetime.now().timestamp() + 5
    os.utime(tree.partition() / "manifest.json", (future, future))
    before = set(path.name for path in tree.partition().iterdir())
    lithify("compact")
    assert trees.live(tree.partition()) == []
    assert before <= set(path.name for path in tree.partition().iterdir())


@pytest.mark.parametrize("segment", [
    "data/tenant_id=acme/year=2025/month=3/day=04/hour=05",
    "data/tenant_id=acme/year=2025/month=02/day=30/hour=05",
    "data/tenant_id=acme/year=2025/month=03/day=04/hour=24",
    "data/tenant_id=a%2fb/year=2025/month=03/day=04/hour=05",
    "data/tenant_id=a%ZZ/year=2025/month=03/day=04/hour=05",
    "data/tenant=acme/year=2025/month=03/day=04/hour=05",
    "data/tenant_id=acme/year=2025/month=03/day=04/hour=05/extra=1",
])
def test_non_canonical_path_is_reported_and_left_alone(tree, lithify, segment):
    """R199, R200, R205."""
    tree.fill(files=6, rows=10, hour=GOOD_HOUR)
    odd = tree.root / segment
    odd.mkdir(parents=True)
    for i in range(6):
        pq.write_table(log_table("acme", HOUR, 10, seed=i), odd / f"{i}.parquet")
    before = trees.contents(odd)
    result = lithify("compact", code=None)
    assert result.code in (cli.OK, cli.PARTITION_FAILED)
    assert trees.contents(odd) == before
    assert "/".join(segment.split("/")[:2]) in result.text
    assert len(trees.live(tree.partition(hour=GOOD_HOUR))) == 1


@pytest.mark.local_disk("a symbolic link")
def test_a_symbolic_link_does_not_lead_out(tree, lithify, tmp_path):
    """A partition directory that is a link to another tenant's directory is not followed into a
    merge: its rows belong to another path, so nothing is published."""
    outside = tmp_path / "outside"
    outside.mkdir()
    for i in range(6):
        pq.write_table(log_table("globex", HOUR, 10, seed=i), outside / f"{i}.parquet")
    tree.partition().parent.mkdir(parents=True)
    tree.partition().symlink_to(outside)
    before = trees.contents(outside)
    lithify("compact", code=None)
    after = trees.contents(outside)
    after.pop("manifest.json", None)
    assert after == before


def test_vanished_file(tree, lithify):
    """R313: an input that goes while a sweep runs. The bounded rate makes the window wide; either
    the partition fails, or it was done before the file went; no other row is lost."""
    import time
    paths = tree.fill(files=6, rows=500, body_bytes=2000)
    process = cli.start("compact", tree.root, "--jobs", "1", "--io-limit", "2MiB")
    time.sleep(0.3)
    paths[5].unlink()
    out, err = process.communicate(timeout=120)
    live = [path for path in trees.live(tree.partition()) if path.exists()]
    if process.returncode == cli.OK:
        assert judge.row_count(live) == 3000
    else:
        assert process.returncode == cli.PARTITION_FAILED
        assert paths[5].name in out + err
        assert judge.row_count(live) == 2500


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 8 MiB."""
    if os.geteuid() != 0:
        pytest.skip("mounting a small file system needs root")
    where = tmp_path / "disk"
    where.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", str(where)],
                             capture_output=True, text=True, check=False)
    if mounted.returncode != 0:
        pytest.skip(f"no mounting here: {mounted.stderr.strip()}")
    yield where
    subprocess.run(["umount", str(where)], check=True)


@pytest.mark.local_disk("fills a file system of its own")
def test_full_disk(small_disk):
    """R314: no space for the output. An error that says so before any commit, temporaries gone,
    and after making space the next sweep does the work."""
    tree = trees.Tree(small_disk / "lake")
    tree.fill(files=6, rows=100, body_bytes=4000)
    filler = small_disk / "filler"
    with open(filler, "wb") as file:
        free = os.statvfs(small_disk).f_bavail * os.statvfs(small_disk).f_frsize
        file.write(os.urandom(free - 700 * 1024))
    before = judge.pyarrow_rows(trees.live(tree.partition()))
    files = {path.name for path in tree.partition().iterdir()}

    result = cli.run("compact", tree.root, code=cli.PARTITION_FAILED)
    assert "space" in result.text.lower()
    after = {path.name for path in tree.partition().iterdir()}
    assert after - {"manifest.json"} == files
    assert judge.pyarrow_rows(trees.live(tree.partition())) == before

    filler.unlink()
    cli.run("compact", tree.root)
    assert len(trees.live(tree.partition())) == 1
    assert judge.pyarrow_rows(trees.live(tree.partition())) == before


@pytest.mark.local_disk("a directory that may not be written")
def test_read_only_directory(tree, tmp_path):
    """A directory that cannot be written: said, nothing changed. As root only a read-only mount
    stops writes, so it is one."""
    tree.fill(files=6, rows=10)
    tree.fill(files=6, rows=10, hour=GOOD_HOUR)
    before = trees.contents(tree.root / "data")
    partition = tree.partition()
    if os.geteuid() == 0:
        bind = subprocess.run(["mount", "--bind", str(partition), str(partition)], check=False,
                              capture_output=True, text=True)
        if bind.returncode != 0:
            pytest.skip(f"no mounting here: {bind.stderr.strip()}")
        subprocess.run(["mount", "-o", "remount,ro,bind", str(partition)], check=True)
    else:
        partition.chmod(0o555)
    try:
        result = cli.run("compact", tree.root, code=cli.PARTITION_FAILED)
        assert "hour=05" in result.text
        key = tree.key(partition)
        found = trees.contents(tree.root / "data")
        for name, digest in before.items():
            if name.startswith(key.removeprefix("data/")):
                assert found[name] == digest
        assert len(trees.live(tree.partition(hour=GOOD_HOUR))) == 1
    finally:
        if os.geteuid() == 0:
            subprocess.run(["umount", str(partition)], check=True)
        else:
            partition.chmod(0o755)


@pytest.mark.local_disk("nothing below a prefix of a bucket is an empty tree, not an error")
def test_unreadable_root(tmp_path):
    """R312: only a root that cannot be listed ends the whole sweep."""
    file = tmp_path / "file"
    file.write_text("not a directory", encoding="utf-8")
    cli.run("compact", file, code=cli.UNREADABLE)
    for command in ("status", "compact"):
        cli.run(command, tmp_path / "absent", code=cli.UNREADABLE)


def test_other_files_are_not_ours(tree, lithify):
    """R200: other suffixes and nested files are neither read, nor counted, nor removed."""
    tree.fill(files=6, rows=10)
    (tree.partition() / "_SUCCESS").write_text("", encoding="utf-8")
    (tree.partition() / "notes.txt").write_text("mine", encoding="utf-8")
    (tree.partition() / "sub").mkdir()
    shutil.copy(trees.live(tree.partition())[0], tree.partition() / "sub" / "x.parquet")
    lithify("compact")
    trees.age(tree.root, seconds=7200)
    lithify("gc")
    assert (tree.partition() / "_SUCCESS").exists()
    assert (tree.partition() / "notes.txt").read_text(encoding="utf-8") == "mine"
    assert (tree.partition() / "sub" / "x.parquet").exists()
    assert judge.row_count(trees.live(tree.partition())) == 60


def test_file_that_is_still_being_written_is_left_alone(tree, lithify):
    """A committed name whose footer is not there yet, and young: not an input, not removed."""
    tree.fill(files=6, rows=10)
    lithify("compact")
    young = tree.partition() / f"{trees.uuid7(HOUR)}.parquet"
    young.write_bytes(b"PAR1 and no more yet")
    lithify("compact", code=None)
    lithify("gc", code=None)
    assert young.exists()
    assert young not in trees.live(tree.partition())
    # Once complete it is adopted like any late file.
    pq.write_table(minimal_table("acme", HOUR, row=["late"]), young)
    lithify("compact")
    assert judge.row_count(trees.live(tree.partition())) == 61
