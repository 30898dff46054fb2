"""Sorting data that is several times the memory: lithify's sort of an Iceberg table against
DuckDB's and Polars' of the same files, in interleaved rounds. Run it with ./dev bench sort on a
quiet machine; it writes bench/SORT.md.

Shapes, each files of about 16 MiB of zstd by pyarrow, whose rows are in no order:
  wide   24 columns of mixed types, sorted by one of them
  logs   a time, a service, a level, and a text with most of the bytes, sorted by service and time
  runs   like wide, but each file is in order by itself, over all keys: they only need to be merged
All get the same memory, an eighth of the data as it lies on disk or less, two threads, the same
disk to spill to, and write zstd of level 3. lithify is measured as the whole process, with fsyncs,
the commit and its default verification; DuckDB and Polars as the operation alone, which syncs and
verifies nothing. Memory is the peak of the process. The limit beside it is cp with fsync.

What the order is worth is told of the same table: bytes of the files that a filter of 1 % of the
keys has to open, before and after, by the bounds in the manifests."""

import argparse
import datetime
import os
import pathlib
import shutil
import sys

import measure

sys.path[:0] = [str(measure.ROOT / "tests" / "e2e")]

import peers  # noqa: E402

THREADS = 2
LEVEL = 3
ROW_GROUP = 327_680
KEYS = {"wide": ["k"], "runs": ["k"], "logs": ["service", "ts"]}


# --- the data ------------------------------------------------------------------------------------

def batch(shape, rng, rows, number):
    import numpy as np
    import pyarrow as pa
    if shape == "logs":
        words = np.array([f"{rng.integers(1 << 40):x}" for _ in range(5000)])
        picked = words[rng.integers(0, len(words), size=(rows, 12))]
        body = pa.array([" ".join(row) for row in picked])
        return pa.table({
            "ts": pa.array(rng.integers(0, 10**12, rows)),
            "service": pa.array([f"service-{i:03}" for i in rng.integers(0, 200, rows)]),
            "level": pa.array(rng.choice(["INFO", "WARN", "ERROR"], rows)),
            "body": body})
    columns = {"k": rng.integers(0, 1 << 40, rows)}
    if shape == "runs":
        columns["k"] = np.sort(columns["k"])
    for i in range(8):
        columns[f"i{i}"] = rng.integers(0, 1 << (8 + 6 * i), rows)
    for i in range(5):
        columns[f"d{i}"] = rng.normal(size=rows)
    for i in range(5):
        columns[f"c{i}"] = pa.array([f"value {v}" for v in rng.integers(0, 10 ** (i + 1), rows)])
    for i in range(5):
        columns[f"u{i}"] = pa.array([f"{v:x}" for v in rng.integers(0, 1 << 62, rows)])
    del number
    return pa.table(columns)


class Lake:
    """One shape's table, as it was made, and the place where it is measured."""

    def __init__(self, scratch, shape, megabytes):
        self.shape = shape
        self.root = scratch / "lake"
        self.pristine = scratch / f"{shape}-{megabytes}"
        if not (self.pristine / "done").exists():
            shutil.rmtree(self.pristine, ignore_errors=True)
            shutil.rmtree(self.root, ignore_errors=True)
            self.root.mkdir(parents=True)
            print(f"{shape}: writing {megabytes} MiB", flush=True)
            self.make(megabytes * measure.MIB)
            self.root.rename(self.pristine)
            (self.pristine / "done").touch()

    def make(self, wanted):
        import iceberg_tables as it
        import numpy as np
        import pyarrow.parquet as pq
        rng = np.random.default_rng(7)
        warehouse = it.Warehouse(self.root)
        from pyiceberg.io.pyarrow import _pyarrow_to_schema_without_ids  # noqa: PLC0415
        from pyiceberg.schema import assign_fresh_schema_ids  # noqa: PLC0415
        rows, written, number, table = 100_000, 0, 0, None
        while written < wanted:
            data = batch(self.shape, rng, rows, number)
            if table is None:
                schema = assign_fresh_schema_ids(_pyarrow_to_schema_without_ids(data.schema))
                table = warehouse.create("t", schema)
                folder = pathlib.Path(it.local(table.location())) / "data"
                folder.mkdir(parents=True, exist_ok=True)
                arrow = table.schema().as_arrow()
            path = folder / f"in-{number:05}.parquet"
            pq.write_table(data.cast(arrow), path, compression="zstd", compression_level=LEVEL)
            written += path.stat().st_size
            number += 1
        table.add_files([f"file://{p}" for p in sorted(folder.glob("*.parquet"))])

    def fresh(self):
        shutil.rmtree(self.root, ignore_errors=True)
        shutil.copytree(self.pristine, self.root)
        os.sync()

    def files(self):
        return sorted(str(p) for p in self.root.rglob("in-*.parquet"))

    def bytes(self):
        return sum(p.stat().st_size for p in self.pristine.rglob("in-*.parquet"))

    def opened(self):
        """The share of the live bytes that a filter of 1 % of the first key opens, on average."""
        import iceberg_tables as it
        from pyiceberg.conversions import from_bytes
        table = it.Warehouse(self.root).load("t")
        field = table.schema().find_field(KEYS[self.shape][0])
        spans = []
        for task in table.scan().plan_files():
            file = task.file
            spans.append((from_bytes(field.field_type, file.lower_bounds[field.field_id]),
                          from_bytes(field.field_type, file.upper_bounds[field.field_id]),
                          file.file_size_in_bytes))
        total = sum(size for _, _, size in spans)
        if self.shape == "logs":
            probes = [(f"service-{i:03}", f"service-{i + 1:03}") for i in range(0, 198, 9)]
        else:
            step = (1 << 40) // 100
            probes = [(i * step, (i + 1) * step) for i in range(0, 99, 4)]
        opened = sum(size for low, high in probes for lower, upper, size in spans
                     if lower <= high and low <= upper)
        return opened / len(probes) / total


# --- who takes part ------------------------------------------------------------------------------

def worker_duckdb(memory, spill, out, shape, files):
    import duckdb
    db = duckdb.connect(config={"threads": THREADS, "memory_limit": f"{memory}MiB",
                                "temp_directory": spill, "preserve_insertion_order": False})
    listed = ", ".join(f"'{file}'" for file in files)
    measure.work(lambda: db.execute(
        f"COPY (FROM read_parquet([{listed}]) ORDER BY {', '.join(KEYS[shape])}) TO '{out}' "
        f"(FORMAT parquet, COMPRESSION zstd, COMPRESSION_LEVEL {LEVEL}, "
        f"ROW_GROUP_SIZE {ROW_GROUP})"))


def worker_polars(_memory, _spill, out, shape, files):
    import polars as pl
    measure.work(lambda: pl.scan_parquet(files).sort(KEYS[shape], maintain_order=True).sink_parquet(
        out, compression="zstd", compression_level=LEVEL))


WORKERS = {"duckdb": worker_duckdb, "polars": worker_polars}


def lithify(lake, memory, spill):
    wall, cpu, peak, _ = measure.spawn(
        [measure.BINARY, "rewrite-data-files", "lake.sales.t", "--catalog-uri",
         f"sqlite:///{lake.root}/catalog.db", "--sort-order", ", ".join(KEYS[lake.shape]),
         "--rewrite-all", "--memory", f"{memory}MiB", "--spill-dir", str(spill), "--jobs",
         str(THREADS), "--json"])
    return {"wall": wall, "cpu": cpu, "peak": peak}


def peer(name, lake, memory, spill, out):
    env = dict(os.environ, POLARS_MAX_THREADS=str(THREADS), POLARS_TEMP_DIR=str(spill))
    _, _, peak, text = measure.spawn(
        [sys.executable, __file__, "--worker", name, str(memory), str(spill), str(out), lake.shape,
         *lake.files()], env=env)
    found = peers.json_of(text)
    return {"wall": found["wall"], "cpu": found["cpu"], "peak": peak}


def copy(lake, out):
    """The limit: the same bytes read and written once, and synced."""
    def run():
        for i, file in enumerate(lake.files()):
            with open(file, "rb") as source, open(f"{out}.{i}", "wb") as target:
                shutil.copyfileobj(source, target, 1 << 20)
                target.flush()
                os.fsync(target.fileno())
    import resource
    import time
    before, begin = resource.getrusage(resource.RUSAGE_SELF), time.perf_counter()
    run()
    after = resource.getrusage(resource.RUSAGE_SELF)
    return {"wall": time.perf_counter() - begin,
            "cpu": after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, "peak": 0}


def report(found, sizes, opened, memory, quiet):
    lines = ["# Sorting data of several times the memory", "",
             f"{datetime.date.today()}. {quiet.text()}", "",
             f"Memory {memory} MiB, {THREADS} threads, zstd of level {LEVEL}; medians of "
             "interleaved rounds. bench/sort.py says how.", "",
             "| shape | who | wall s | CPU s | peak MiB | MiB/s of the files | lithify is faster |",
             "|---|---|---|---|---|---|---|"]
    for shape, results in found.items():
        ours = None
        for who, samples in results.items():
            if isinstance(samples, str):
                lines.append(f"| {shape} | {who} | {samples} | | | | |")
                continue
            wall, cpu, peak = measure.medians([(s["wall"], s["cpu"], s["peak"]) for s in samples])
            ours = wall if who == "lithify" else ours
            times = "" if who in ("lithify", "cp and fsync") else f"{wall / ours:.2f} times"
            lines.append(f"| {shape}, {sizes[shape] / measure.MIB:.0f} MiB | {who} | {wall:.1f} | "
                         f"{cpu:.1f} | {peak / measure.MIB:.0f} | "
                         f"{sizes[shape] / measure.MIB / wall:.0f} | {times} |")
    lines += ["", "What a filter of 1 % of the first key opens, of the live bytes:", "",
              "| shape | before | after |", "|---|---|---|"]
    for shape, (before, after) in opened.items():
        lines.append(f"| {shape} | {100 * before:.1f} % | {100 * after:.1f} % |")
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--memory", type=int, default=256, help="MiB (default 256)")
    parser.add_argument("--times", type=float, default=8, help="data over memory (default 8)")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--shapes", default="wide,logs,runs")
    parser.add_argument("--peers", default="duckdb,polars")
    parser.add_argument("--scratch", type=pathlib.Path,
                        default=measure.ROOT / "build" / "bench-sort")
    parser.add_argument("--out", type=pathlib.Path, default=measure.ROOT / "bench" / "SORT.md")
    options = parser.parse_args()
    quiet = measure.Quiet()
    found, sizes, opened = {}, {}, {}
    for shape in options.shapes.split(","):
        lake = Lake(options.scratch, shape, int(options.memory * options.times))
        sizes[shape] = lake.bytes()
        results = {}
        for number in range(options.rounds):
            for who in ["lithify", *options.peers.split(","), "cp and fsync"]:
                lake.fresh()
                spill, out = options.scratch / "spill", options.scratch / "out.parquet"
                shutil.rmtree(spill, ignore_errors=True)
                spill.mkdir(mode=0o700)
                try:
                    if who == "lithify":
                        before = lake.opened()
                        sample = lithify(lake, options.memory, spill)
                        opened[shape] = (before, lake.opened())
                    elif who == "cp and fsync":
                        sample = copy(lake, out)
                    else:
                        sample = peer(who, lake, options.memory, spill, out)
                except measure.Failed as error:
                    print(f"{shape} {who}: {error}", flush=True)
                    if who == "lithify":
                        raise
                    results[who] = "failed: " + str(error).strip().splitlines()[-1][:120]
                    continue
                finally:
                    for made in options.scratch.glob("out.parquet*"):
                        made.unlink()
                print(f"{shape} {number + 1}/{options.rounds} {who}: {sample}", flush=True)
                if not isinstance(results.get(who), str):
                    results.setdefault(who, []).append(sample)
        found[shape] = results
    text = report(found, sizes, opened, options.memory, quiet)
    print(text)
    options.out.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--worker"]:
        WORKERS[sys.argv[2]](int(sys.argv[3]), *sys.argv[4:7], sys.argv[7:])
    else:
        main()
