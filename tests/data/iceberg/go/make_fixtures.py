"""Writes the metadata.json files, manifest lists and manifests beside this file, with the program
that tests/services/go_lake.sh builds.

The files are compared by value, so that other versions may write other bytes.
"""
import datetime
import decimal
import json
import pathlib
import sqlite3
import subprocess
import sys
import tempfile

import fastavro
import pyarrow as pa

HERE = pathlib.Path(__file__).resolve().parent
SCHEMA = {"type": "struct", "schema-id": 0, "identifier-field-ids": [], "fields": [
    {"id": 1, "name": "id", "type": "long", "required": True},
    {"id": 2, "name": "region", "type": "string", "required": False},
    {"id": 3, "name": "at", "type": "timestamptz", "required": False},
    {"id": 4, "name": "price", "type": "decimal(9, 2)", "required": False},
    {"id": 5, "name": "score", "type": "double", "required": False}]}
SPEC = {"spec-id": 0, "fields": [
    {"source-id": 2, "field-id": 1000, "name": "region", "transform": "identity"},
    {"source-id": 3, "field-id": 1001, "name": "at_day", "transform": "day"}]}
AT = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
COLUMNS = pa.schema([pa.field("id", pa.int64(), False), ("region", pa.string()),
                     ("at", pa.timestamp("us", tz="UTC")), ("price", pa.decimal128(9, 2)),
                     ("score", pa.float64())])


def rows(start, count):
    """Even: region "eu", the first day; odd: neither region nor day, a NaN."""
    return pa.Table.from_pylist(
        [{"id": i, "region": "eu", "at": AT, "price": decimal.Decimal(i) / 4, "score": i / 2}
         if i % 2 == 0 else {"id": i, "price": None, "score": float("nan")}
         for i in range(start, start + count)], schema=COLUMNS)


def main():
    program = subprocess.run(["bash", str(HERE.parents[2] / "services" / "go_lake.sh")],
                             stdout=subprocess.PIPE, text=True, check=True).stdout.strip()
    subprocess.run([program, "manifests", str(HERE)], check=True)
    with tempfile.TemporaryDirectory() as name:
        for version in (1, 2, 3):
            make_table(program, pathlib.Path(name), version)


def make_table(program, work, version):
    table = f"v{version}_rows"
    database, exchanged = work / "catalog.db", work / "rows.arrow"

    def go(command, *args):
        subprocess.run([program, command, "-database", str(database), "-warehouse", "file:///lake",
                        "-root", str(work), "-table", f"sales.{table}", *map(str, args)],
                       check=True)

    def given(arrow):
        with pa.ipc.new_file(str(exchanged), arrow.schema) as writer:
            writer.write_table(arrow)
        return exchanged

    mode = "copy-on-write" if version == 1 else "merge-on-read"
    go("create", "-schema", json.dumps(SCHEMA), "-spec", json.dumps(SPEC),
       "-property", f"format-version={version}", "-property", f"write.delete.mode={mode}")
    go("append", given(rows(0, 8)))
    go("append", given(rows(8, 4)))
    go("delete", 2, 3)
    if version > 1:
        go("equality", "-key", "id", given(rows(8, 1).select(["id", "region", "at"])))
    copy_metadata(work, database, table)


def copy_metadata(work, database, table):
    """metadata.json, the list of the current snapshot and its manifests, in the list's order."""
    with sqlite3.connect(database) as catalog:
        (location,), = catalog.execute(
            "SELECT metadata_location FROM iceberg_tables WHERE table_name = ?", (table,))

    def read(location):
        return (work / location.removeprefix("file:///")).read_bytes()

    metadata = json.loads(read(location))
    (HERE / f"{table}.metadata.json").write_bytes(read(location))
    (current,) = (s for s in metadata["snapshots"]
                  if s["snapshot-id"] == metadata["current-snapshot-id"])
    (HERE / f"{table}-list.avro").write_bytes(read(current["manifest-list"]))
    with open(HERE / f"{table}-list.avro", "rb") as file:
        for number, manifest in enumerate(fastavro.reader(file)):
            (HERE / f"{table}-m{number}.avro").write_bytes(read(manifest["manifest_path"]))


if __name__ == "__main__":
    sys.exit(main())
