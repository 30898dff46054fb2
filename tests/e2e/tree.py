"""Hive trees on disk for the tests: writing them, and reading them as the contract with readers
says (docs/FORMATS.md), with code that shares nothing with lithify."""

import datetime
import hashlib
import json
import os
import pathlib
import random
import shutil
import urllib.parse

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

UTC = datetime.timezone.utc
HOUR = datetime.datetime(2025, 3, 4, 5, tzinfo=UTC)  # Sealed long ago.

_names = random.Random(7)


def uuid7(when):
    """A UUIDv7 of `when`: names sort by creation."""
    millis = int(when.timestamp() * 1000)
    value = (millis << 80) | (0x7 << 76) | (_names.getrandbits(12) << 64) | (0b10 << 62)
    value |= _names.getrandbits(62)
    text = f"{value:032x}"
    return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))


def log_table(tenant, hour, count, seed=0, body_bytes=40, extra=None):
    """`count` log records of one tenant and hour; bodies do not compress."""
    rng = random.Random(f"{tenant}/{hour}/{seed}")
    start = int(hour.timestamp()) * 10**9
    columns = {
        "tenant_id": pa.array([tenant] * count, pa.string()),
        "time_unix_nano": pa.array([start + rng.randrange(3600 * 10**9) for _ in range(count)],
                                   pa.int64()),
        "observed_time_unix_nano": pa.array([0] * count, pa.int64()),
        "template_id": pa.array([f"t{rng.randrange(20)}" for _ in range(count)], pa.string()),
        "trace_id": pa.array([rng.randbytes(16) for _ in range(count)], pa.binary()),
        "severity": pa.array([rng.choice([None, 5, 9, 17]) for _ in range(count)], pa.int32()),
        "service": pa.array([rng.choice(["cart", "pay", None]) for _ in range(count)], pa.string()),
        "body": pa.array([rng.randbytes(body_bytes) for _ in range(count)], pa.binary()),
        "row": pa.array([f"{tenant}/{hour:%Y%m%d%H}/{seed}/{i}" for i in range(count)],
                        pa.string()),
    }
    columns.update(extra(count, rng) if extra else {})
    return pa.table(columns)


def minimal_table(tenant, hour, **columns):
    """Any columns, beside the two that the preset checks against the path."""
    count = len(next(iter(columns.values())))
    start = int(hour.timestamp()) * 10**9
    arrays = {"tenant_id": pa.array([tenant] * count, pa.string()),
              "time_unix_nano": pa.array([start + i for i in range(count)], pa.int64())}
    arrays.update(columns)
    return pa.table(arrays)


class Tree:
    """A tree with the layout of the preset `ourios`."""

    def __init__(self, root):
        self.root = pathlib.Path(root)
        self.root.mkdir(parents=True)
        self._count = 0

    def partition(self, tenant="acme", hour=HOUR, series="data"):
        encoded = urllib.parse.quote(tenant, safe="-_.~")
        return self.root / series / f"tenant_id={encoded}" / f"year={hour:%Y}" / \
            f"month={hour:%m}" / f"day={hour:%d}" / f"hour={hour:%H}"

    def key(self, partition):
        return str(partition.relative_to(self.root))

    def path(self, tenant="acme", hour=HOUR, name=None):
        """Where the next file goes; makes the directory."""
        partition = self.partition(tenant, hour)
        partition.mkdir(parents=True, exist_ok=True)
        self._count += 1
        created = hour + datetime.timedelta(seconds=self._count)
        return partition / (name or f"{uuid7(created)}.parquet")

    def write(self, table, tenant="acme", hour=HOUR, name=None, **options):
        """One committed file, written by pyarrow."""
        path = self.path(tenant, hour, name)
        options.setdefault("compression", "zstd")
        pq.write_table(table, path.with_suffix(".parquet.part"), **options)
        path.with_suffix(".parquet.part").rename(path)
        return path

    def write_duckdb(self, table, tenant="acme", hour=HOUR, options="compression zstd"):
        """One committed file, written by DuckDB."""
        path = self.path(tenant, hour)
        with duckdb.connect() as db:
            db.register("source", table)
            db.execute(f"COPY source TO '{path}' (FORMAT parquet, {options})")
        return path

    def fill(self, files, rows, tenant="acme", hour=HOUR, body_bytes=40, **options):
        """`files` small files of `rows` records each; returns their paths."""
        return [self.write(log_table(tenant, hour, rows, seed=i, body_bytes=body_bytes), tenant,
                           hour, **options) for i in range(files)]

    def files(self, pattern="*"):
        return sorted(path for path in self.root.rglob(pattern) if path.is_file())

    def copy_to(self, where):
        """The originals, kept for comparing."""
        shutil.copytree(self.root, where)
        return where


def read_manifest(partition):
    path = pathlib.Path(partition) / "manifest.json"
    return json.loads(path.read_text()) if path.exists() else None


def live(partition):
    """The live files of a partition as any reader sees them: listed first, then the manifest looked
    for, so that a manifest that appears in between wins over the listing."""
    partition = pathlib.Path(partition)
    listed = sorted(partition.glob("*.parquet"))
    manifest = read_manifest(partition)
    if manifest is None:
        return listed
    return [partition / name for name in manifest["files"]]


def generation(partition):
    manifest = read_manifest(partition)
    return manifest["generation"] if manifest else 0


def partitions(root):
    """Every directory that holds Parquet files or a manifest, below data/."""
    root = pathlib.Path(root)
    found = {path.parent for path in root.glob("data/**/*.parquet")}
    found |= {path.parent for path in root.glob("data/**/manifest.json")}
    return sorted(found)


def live_of_tree(root):
    return [path for partition in partitions(root) for path in live(partition)]


def tree_hash(root):
    """Names, bytes and modification times of everything below `root`."""
    digest = hashlib.sha256()
    for path in sorted(pathlib.Path(root).rglob("*")):
        digest.update(str(path.relative_to(root)).encode())
        if path.is_file():
            digest.update(path.read_bytes())
            digest.update(str(path.stat().st_mtime_ns).encode())
    return digest.hexdigest()


def contents(root):
    """Relative name -> sha256 of every file below `root`."""
    return {str(path.relative_to(root)): hashlib.sha256(path.read_bytes()).hexdigest()
            for path in sorted(pathlib.Path(root).rglob("*")) if path.is_file()}


def age(root, seconds):
    """Makes everything look `seconds` older: modification times, and the times at which the
    manifests say that files were retired."""
    for path in sorted(pathlib.Path(root).rglob("*")):
        if not path.is_file():
            continue
        stat = path.stat()
        if path.name == "manifest.json":
            manifest = json.loads(path.read_text())
            for retired in manifest.get("lithify", {}).get("retired", []):
                retired["at"] = _earlier(retired["at"], seconds)
            path.write_text(json.dumps(manifest))
        os.utime(path, ns=(stat.st_atime_ns - seconds * 10**9, stat.st_mtime_ns - seconds * 10**9))


def _earlier(when, seconds):
    moved = datetime.datetime.fromisoformat(when.replace("Z", "+00:00"))
    moved -= datetime.timedelta(seconds=seconds)
    return moved.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
