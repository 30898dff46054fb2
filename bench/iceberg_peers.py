"""Peers of bench/iceberg.py, each in a process of its own: `iceberg_peers.py NAME THREADS LAKE
OUT` writes the live rows of the table into one file for each partition, below OUT.

duckdb     COPY of the data files less the rows that the deletes name, by an anti join. (Its
           extension for Iceberg is not to be had for this version of it.)
polars     likewise, by the number of each row in the sequence of all. (scan_iceberg refuses
           position delete files of several data files.)
pyarrow    a loop over the data files that filters each batch by a mask
rust       the Rust crate iceberg-compaction, in its wheel; it commits to a REST catalog, in which
           the table was registered before, and OUT is that catalog's address

What is measured is the operation alone, without starting Python and loading libraries; only that of
`rust` holds planning and a commit. Position delete files are read in the measured time; deletion
vectors are unpacked before it. Prints JSON."""

import itertools
import os
import pathlib
import sys

import measure

sys.path.insert(0, str(measure.ROOT / "tests" / "e2e"))
LEVEL = 3
NAME = "bench"


def local(path):
    """Spark writes file:/path as well as file:///path."""
    return "/" + path.removeprefix("file:").lstrip("/")


def load(lake):
    import iceberg_tables
    lake = pathlib.Path(lake)
    return iceberg_tables.Warehouse(lake / "warehouse", lake / "catalog.db").load(NAME)


def partitions(table):
    """{partition: ([data files], [delete files of metadata])}"""
    found = {}
    for task in table.scan().plan_files():
        region = str(task.file.partition[0])
        data, deletes = found.setdefault(region, ([], {}))
        data.append(local(task.file.file_path))
        deletes.update({(file.file_path, getattr(file, "content_offset", None)): file
                        for file in task.delete_files})
    return {region: (data, list(deletes.values())) for region, (data, deletes) in found.items()}


def vectors(table, files):
    """An Arrow table (file_path, pos) of what the deletion vectors hold."""
    import pyarrow as pa
    from pyiceberg.table.deletion_vector import deletion_vectors_from_puffin_file
    from pyiceberg.table.puffin import PuffinFile
    paths, positions = [], []
    for path in {file.file_path for file in files}:
        puffin = PuffinFile(pathlib.Path(local(path)).read_bytes())
        for vector in deletion_vectors_from_puffin_file(puffin):
            values = vector.to_vector()
            paths.append(pa.repeat(local(vector.referenced_data_file), len(values)))
            positions += values.cast(pa.int64()).chunks
    return pa.table({"file_path": pa.chunked_array(paths, pa.string()),
                     "pos": pa.chunked_array(positions, pa.int64())})


def prepared(table):
    """{partition: (data files, delete files, table of positions or None)}"""
    found = {}
    for region, (data, deletes) in partitions(table).items():
        if any(file.file_format.name == "PUFFIN" for file in deletes):
            found[region] = data, [], vectors(table, deletes)
        else:
            found[region] = data, [local(file.file_path) for file in deletes], None
    return found


def worker_duckdb(threads, lake, out):
    import duckdb
    db = duckdb.connect(config={"threads": threads})
    work = prepared(load(lake))

    def run():
        for region, (data, deletes, positions) in work.items():
            source = "FROM read_parquet([{}], filename = true, file_row_number = true, " \
                "hive_partitioning = false) d".format(", ".join(f"'{path}'" for path in data))
            if deletes or positions:
                if positions:
                    db.register("positions", positions)
                listed = ", ".join(f"'{path}'" for path in deletes)
                gone = "positions" if positions else (
                    "(SELECT regexp_replace(file_path, '^file:/*', '/') AS file_path, pos FROM "
                    f"read_parquet([{listed}]))")
                source += f" ANTI JOIN {gone} x ON d.filename = x.file_path AND " \
                    "d.file_row_number = x.pos"
            db.execute(f"COPY (SELECT * EXCLUDE (filename, file_row_number) {source}) TO "
                       f"'{out}/{region}.parquet' (FORMAT parquet, COMPRESSION zstd, "
                       f"COMPRESSION_LEVEL {LEVEL})")
    return run


def worker_polars(_, lake, out):
    import polars as pl  # Its threads come from POLARS_MAX_THREADS.
    table = load(lake)
    rows = {local(task.file.file_path): task.file.record_count
            for task in table.scan().plan_files()}
    work = prepared(table)

    def run():
        for region, (data, deletes, positions) in work.items():
            frame = pl.scan_parquet(data, row_index_name="row", hive_partitioning=False)
            if deletes or positions:
                before = list(itertools.accumulate([0] + [rows[path] for path in data[:-1]]))
                starts = pl.LazyFrame({"file_path": data, "start": before})
                gone = pl.from_arrow(positions).lazy() if positions else pl.scan_parquet(
                    deletes).with_columns(pl.col("file_path").str.replace("^file:/*", "/"))
                gone = gone.join(starts, on="file_path").select(
                    row=(pl.col("start") + pl.col("pos")).cast(pl.get_index_type()))
                frame = frame.join(gone, on="row", how="anti")
            frame.drop("row").sink_parquet(f"{out}/{region}.parquet", compression="zstd",
                                           compression_level=LEVEL)
    return run


def worker_pyarrow(threads, lake, out):
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq
    pa.set_cpu_count(threads)
    work = prepared(load(lake))

    def gone_rows(deletes, positions):
        """{data file: numbers of its deleted rows}"""
        if positions is None:
            if not deletes:
                return {}
            positions = pa.concat_tables([pq.read_table(path) for path in deletes])
        paths = positions["file_path"].combine_chunks().dictionary_encode()
        codes, rows = paths.indices.to_numpy(), positions["pos"].to_numpy()
        order = np.argsort(codes, kind="stable")
        names = [local(path) for path in paths.dictionary.to_pylist()]
        bounds = np.searchsorted(codes[order], np.arange(len(names) + 1))
        return {name: rows[order[bounds[i]:bounds[i + 1]]] for i, name in enumerate(names)}

    def run():
        for region, (data, deletes, positions) in work.items():
            gone = gone_rows(deletes, positions)
            with pq.ParquetWriter(f"{out}/{region}.parquet", pq.read_schema(data[0]),
                                  compression="zstd", compression_level=LEVEL) as writer:
                for path in data:
                    table = pq.read_table(path, partitioning=None, use_threads=threads > 1)
                    if path in gone:
                        mask = np.ones(len(table), dtype=bool)
                        mask[gone[path]] = False
                        table = table.filter(pa.array(mask))
                    writer.write_table(table)
    return run


def worker_rust(threads, _, address):
    import iceberg_compaction as ic
    catalog = ic.RestCatalog("lake", uri=address)
    config = ic.CompactionConfig(
        strategy="full", target_file_size_bytes=512 << 20, max_input_parallelism=threads,
        max_output_parallelism=threads)
    return lambda: ic.Compaction(catalog, f"sales.{NAME}", config).run()


WORKERS = {"duckdb": worker_duckdb, "polars": worker_polars, "pyarrow": worker_pyarrow,
           "rust": worker_rust}


def main(name, threads, lake, out):
    measure.work(WORKERS[name](int(threads), lake, out))


if __name__ == "__main__":
    os.environ.setdefault("POLARS_MAX_THREADS", sys.argv[2])
    main(*sys.argv[1:])
