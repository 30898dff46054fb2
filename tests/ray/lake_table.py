"""An Iceberg table made and read by others than lithify (pyiceberg, DuckDB), in the interpreter
that has them. `lake_table.py make DIR PARTITIONS FILES ROWS` prints its catalog's URI; `read DIR`
prints as JSON how many rows and data files it has, and a sum over the values of all rows."""

import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "e2e"))

import duckdb  # noqa: E402
import pyarrow as pa  # noqa: E402
from iceberg_lake import PLAIN, Lake  # noqa: E402


def make(directory, partitions, files, rows):
    lake = Lake(directory)
    table = lake.create("t", PLAIN, partition_by=["region"])
    schema = table.schema().as_arrow()
    for number in range(files):
        first = number * partitions * rows
        ids = range(first, first + partitions * rows)
        table.append(pa.table({"id": pa.array(ids, pa.int64()),
                               "region": [f"r{row % partitions:02}" for row in ids],
                               "note": [f"note {row * 7919 % 100_003}" for row in ids]},
                              schema=schema))
    print(lake.uri)


def read(directory):
    lake = Lake(directory)
    rows = lake.load("t").scan().to_arrow()  # noqa: F841
    ((count, total),) = duckdb.sql("SELECT count(*), sum(hash(id, region, note))::VARCHAR "
                                   "FROM rows").fetchall()
    print(json.dumps({"rows": count, "sum": total, "files": len(lake.data_entries("t"))}))


if __name__ == "__main__":
    if sys.argv[1] == "make":
        make(sys.argv[2], *map(int, sys.argv[3:]))
    else:
        read(sys.argv[2])
