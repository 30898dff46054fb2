"""Who takes part in bench/run.py, and how each is run on a shape's files.

lithify, the tools of the Rust crate `parquet`, Spark's first call, and cp are measured as whole
processes from start to exit, lithify with its fsyncs and its default verification. DuckDB, Polars
and pyarrow are measured as the operation alone, without starting Python and loading libraries, and
nobody but lithify and "cp and fsync" syncs. So the comparison leans towards the others. Memory is
the peak of the process.

- parquet-concat only puts row groups behind one another, with a new footer: its output has as many
  row groups as the inputs. What merges them is parquet-rewrite on its output, both counted.
- Spark has no call that compacts plain files: the same files are in an Iceberg table, as they are
  (add_files), and rewrite_data_files rewrites it, once with the JVM's start, then again on the same
  snapshot in the warm session. Its CPU time is the JVM's.
- Polars has no maps: its output has lists of structs instead.

`peers.py NAME THREADS CODEC OUT FOLDER` is the process of one of the first three."""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import time

import measure
import shapes

SPARK_WORKER = measure.ROOT / "bench" / "spark_files.py"
# Decodes and encodes everything, where lithify has the switch.
RECODE = ["--set", "output.splice=false"]
TARGET = 512 * measure.MIB


# --- processes of their own --------------------------------------------------------------------

def worker_duckdb(threads, codec, out, files):
    import duckdb
    db = duckdb.connect(config={"threads": threads})
    listed = ", ".join(f"'{file}'" for file in files)
    return lambda: db.execute(
        f"COPY (FROM read_parquet([{listed}], hive_partitioning = false)) TO '{out}' "
        f"(FORMAT parquet, {shapes.duckdb_codec(codec)})")


def worker_polars(_, codec, out, files):
    import polars as pl  # Its threads come from POLARS_MAX_THREADS.
    return lambda: pl.scan_parquet(files, hive_partitioning=False).sink_parquet(
        out, compression=codec, compression_level=shapes.level(codec))


def worker_loop(threads, codec, out, files):
    import pyarrow as pa
    import pyarrow.parquet as pq
    pa.set_cpu_count(threads)

    def run():
        with pq.ParquetWriter(out, pq.read_schema(files[0]), compression=codec,
                              compression_level=shapes.level(codec)) as writer:
            for file in files:
                for batch in pq.ParquetFile(file).iter_batches(batch_size=16384,
                                                               use_threads=threads > 1):
                    writer.write_batch(batch)
    return run


def worker_dataset(threads, codec, out, files):
    import pyarrow as pa
    import pyarrow.dataset as ds
    pa.set_cpu_count(threads)
    level = {"compression_level": shapes.LEVEL} if codec == "zstd" else {}
    options = ds.ParquetFileFormat().make_write_options(compression=codec, **level)
    return lambda: ds.write_dataset(
        ds.dataset(files, format="parquet"), out, format="parquet", file_options=options,
        basename_template="part-{i}.parquet", min_rows_per_group=1 << 18,
        max_rows_per_group=1 << 20)


WORKERS = {"duckdb": worker_duckdb, "polars": worker_polars, "loop": worker_loop,
           "dataset": worker_dataset}


def work(name, threads, codec, out, folder):
    files = [str(path) for path in sorted(pathlib.Path(folder).glob("*.parquet"))]
    measure.work(WORKERS[name](int(threads), codec, out, files))


# --- contestants -------------------------------------------------------------------------------

def footers(files):
    """(rows, row groups)"""
    import pyarrow.parquet as pq
    found = [pq.read_metadata(file) for file in files]
    return sum(f.num_rows for f in found), sum(f.num_row_groups for f in found)


def sample(wall, cpu, peak, files, **more):
    rows, groups = footers(files)
    return {"wall": wall, "cpu": cpu, "peak": peak, "rows": rows, "groups": groups,
            "size": sum(os.path.getsize(file) for file in files),
            "files": [str(file) for file in files], **more}


def can_recode():
    """Whether lithify has the switch that makes it decode everything."""
    return subprocess.run([measure.BINARY, "config", str(measure.ROOT), *RECODE],
                          capture_output=True, check=False).returncode == 0


def json_of(out):
    """The line of a program's output that is JSON."""
    return json.loads([line for line in out.splitlines() if line.startswith("{")][-1])


def column_chunks(document):
    """What lithify's report says of tiers and ways, summed up over partitions."""
    found = {}
    for partition in document.get("partitions", []):
        for key in ("tiers", "splices"):
            for name, chunks in partition.get(key, {}).items():
                found[name] = found.get(name, 0) + chunks
    return found


class Contest:
    """One shape: its files, and what every contestant makes of them. What was made stays in a
    folder of its own until the same contestant runs again."""

    def __init__(self, shape, folder, scratch, memory):
        self.shape = shape
        self.folder = folder
        self.scratch = scratch
        self.memory = ["--memory", memory] if memory else []
        self.files = sorted(folder.glob("*.parquet"))
        self.bytes_in = sum(file.stat().st_size for file in self.files)
        self.rows, self.groups = footers(self.files)

    def fresh(self, name):
        where = self.scratch / name
        shutil.rmtree(where, ignore_errors=True)
        where.mkdir(parents=True)
        return where

    def lithify(self, jobs, *more):
        root = self.fresh(f"lithify-{jobs}-{len(more)}") / "tree"
        folder = root / self.shape.kind.partition
        folder.mkdir(parents=True)
        if folder.parent.name == "events":
            (root / "lithify.toml").write_text(shapes.EVENTS_TOML, encoding="utf-8")
        for file in self.files:
            os.link(file, folder / file.name)
        os.sync()
        wall, cpu, peak, out = measure.spawn([
            measure.BINARY, "compact", str(root), "--jobs", str(jobs), "--json", "--no-progress",
            *self.memory, *more, "--set", f"output.codec={self.shape.codec}", "--set",
            "limits.low_priority=false"])
        manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
        return sample(wall, cpu, peak, [folder / name for name in manifest["files"]],
                      chunks=column_chunks(json_of(out)))

    def library(self, name, threads):
        out = self.fresh(f"{name}-{threads}") / "out.parquet"
        env = dict(os.environ, POLARS_MAX_THREADS=str(threads), OMP_NUM_THREADS=str(threads))
        _, _, peak, printed = measure.spawn(
            [sys.executable, __file__, name, str(threads), self.shape.codec, str(out),
             str(self.folder)], env)
        numbers = json_of(printed)
        files = sorted(out.glob("*.parquet")) if out.is_dir() else [out]
        return sample(numbers["wall"], numbers["cpu"], peak, files)

    def concat(self):
        out = self.fresh("concat") / "out.parquet"
        wall, cpu, peak, _ = measure.spawn(
            [shapes.rust_tool("parquet-concat"), str(out), *(file.name for file in self.files)],
            cwd=self.folder)
        return sample(wall, cpu, peak, [out])

    def rust_rewrite(self):
        first = self.concat()
        out = self.fresh("rust") / "out.parquet"
        wall, cpu, peak, _ = measure.spawn(
            [shapes.rust_tool("parquet-rewrite"), "--input", first["files"][0], "--output",
             str(out), *shapes.rust_codec(self.shape.codec)])
        return sample(first["wall"] + wall, first["cpu"] + cpu, max(first["peak"], peak), [out])

    def spark(self):
        """{"cold": …, "warm": …}. Metadata holds absolute paths: the table always lies at the same
        place, as it was made."""
        import iceberg
        lake = self.folder.parent / "lake"
        pristine = self.folder.parent / "lake.pristine"
        shutil.rmtree(lake, ignore_errors=True)
        if not pristine.exists():
            lake.mkdir()
            measure.spawn([sys.executable, str(SPARK_WORKER), "register", str(lake),
                           str(self.folder), self.shape.codec])
            lake.rename(pristine)
        shutil.copytree(pristine, lake)
        _, _, _, out = measure.spawn([sys.executable, str(SPARK_WORKER), "rewrite", str(lake),
                                      str(TARGET)])
        found = json_of(out)
        files = iceberg.live_files(lake, "files")
        return {name: sample(used["wall"], used["cpu"], used["peak"], files)
                for name, used in found.items() if name in ("cold", "warm")}

    def copy(self, durable):
        folder = self.fresh("copy") / "files"
        wall, cpu, peak, _ = measure.spawn(["cp", "-r", str(self.folder), str(folder)])
        if durable:
            begin, busy = time.perf_counter(), time.process_time()
            for path in folder.iterdir():
                descriptor = os.open(path, os.O_RDONLY)
                os.fsync(descriptor)
                os.close(descriptor)
            wall += time.perf_counter() - begin
            cpu += time.process_time() - busy
        made = sample(wall, cpu, peak, sorted(folder.iterdir()))
        shutil.rmtree(folder)
        return made

    def codec(self):
        """The limit where pages have to be packed again; nothing is written."""
        _, _, peak, out = measure.spawn([sys.executable,
                                         str(measure.ROOT / "bench" / "codec_speed.py"),
                                         str(self.folder), self.shape.codec, str(shapes.LEVEL)])
        found = json_of(out)
        return {"wall": found["unpack_wall"] + found["pack_wall"],
                "cpu": found["unpack_cpu"] + found["pack_cpu"], "peak": peak, "rows": self.rows,
                "groups": 0, "size": found["packed"], "files": [], "codec": found}


def contestants(contest, cores, recode, spark):
    """{name: function that gives a sample, or several by what is added to the name}"""
    some = f"{cores} threads"
    found = {
        "lithify, 1 thread": lambda: contest.lithify(1),
        f"lithify, {some}": lambda: contest.lithify(cores),
    }
    if recode:
        found |= {"lithify decoding all, 1 thread": lambda: contest.lithify(1, *RECODE),
                  f"lithify decoding all, {some}": lambda: contest.lithify(cores, *RECODE)}
    found |= {
        "DuckDB COPY, 1 thread": lambda: contest.library("duckdb", 1),
        f"DuckDB COPY, {some}": lambda: contest.library("duckdb", cores),
        f"Polars sink, {some}": lambda: contest.library("polars", cores),
        f"pyarrow loop, {some}": lambda: contest.library("loop", cores),
        f"pyarrow dataset, {some}": lambda: contest.library("dataset", cores),
    }
    if os.environ.get("LITHIFY_PARQUET_RUST"):
        found["Rust parquet-concat and -rewrite"] = contest.rust_rewrite
        found["Rust parquet-concat (merges nothing)"] = contest.concat
    if spark:
        found["Spark rewrite_data_files"] = contest.spark
    return found | {
        "the codec alone, 1 thread": contest.codec,
        "cp": lambda: contest.copy(durable=False),
        "cp and fsync": lambda: contest.copy(durable=True),
    }


if __name__ == "__main__":
    work(*sys.argv[1:])
