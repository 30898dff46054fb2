"""Writes the manifests and manifest lists beside this file: pyiceberg for versions 1 and 2,
fastavro for version 3 with names, order and extra fields that no other writer uses (only ids
count).

Needs pyiceberg 0.12 and fastavro 1.13 with cramjam. The files are compared by value, so that other
versions may write other bytes.
"""
import datetime
import decimal
import os
import sys
import uuid

import fastavro
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.manifest import (DataFile, DataFileContent, FileFormat, ManifestEntry,
                                ManifestEntryStatus, write_manifest, write_manifest_list)
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import (BucketTransform, DayTransform, IdentityTransform,
                                  TruncateTransform, VoidTransform)
from pyiceberg.typedef import Record
from pyiceberg.types import (BooleanType, DateType, DecimalType, DoubleType, FloatType, LongType,
                             NestedField, StringType, TimestamptzType, UUIDType)

HERE = os.path.dirname(os.path.abspath(__file__))
SCHEMA = Schema(
    NestedField(1, "id", LongType(), required=True),
    NestedField(2, "region", StringType(), required=False),
    NestedField(3, "ts", TimestamptzType(), required=False),
    NestedField(4, "price", DecimalType(9, 2), required=False),
    NestedField(5, "key", UUIDType(), required=False),
    NestedField(6, "score", DoubleType(), required=False),
    NestedField(7, "day", DateType(), required=False),
    NestedField(8, "ok", BooleanType(), required=False),
    NestedField(9, "ratio", FloatType(), required=False),
    schema_id=0,
)
SPEC = PartitionSpec(
    PartitionField(2, 1000, IdentityTransform(), "region"),
    PartitionField(3, 1001, DayTransform(), "ts_day"),
    PartitionField(1, 1002, BucketTransform(16), "id_bucket"),
    PartitionField(4, 1003, IdentityTransform(), "price"),
    PartitionField(5, 1004, IdentityTransform(), "key"),
    PartitionField(6, 1005, IdentityTransform(), "score"),
    PartitionField(7, 1006, IdentityTransform(), "day"),
    PartitionField(8, 1007, IdentityTransform(), "ok"),
    spec_id=3,
)
KEY = uuid.UUID("f79c3e09-677c-4bbd-a479-3f349cb785e7")
DAY = datetime.date(2017, 11, 16)


def entry(number, status, version):
    file = DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=f"s3://bucket/t/data/region=eu/{number:05d}.parquet",
        file_format=FileFormat.PARQUET,
        partition=Record("eu" if number % 2 == 0 else None, (DAY - datetime.date(1970, 1, 1)).days,
                         number % 16, decimal.Decimal("-14.20"), KEY.bytes, 0.5,
                         (DAY - datetime.date(1970, 1, 1)).days,
                         True),
        record_count=100 + number,
        file_size_in_bytes=10_000 + number,
        block_size_in_bytes=67_108_864,
        column_sizes={1: 400, 2: 500 + number},
        value_counts={1: 100 + number, 2: 100 + number},
        null_value_counts={1: 0, 2: number},
        nan_value_counts={6: 1},
        lower_bounds={1: (number).to_bytes(8, "little"), 2: b"eu"},
        upper_bounds={1: (number + 100).to_bytes(8, "little"), 2: b"ev"},
        key_metadata=None,
        split_offsets=[4, 5000],
        equality_ids=None,
        sort_order_id=1,
    )
    return ManifestEntry.from_args(
        status=status, snapshot_id=77 if status else 66,
        sequence_number=None if status == ManifestEntryStatus.ADDED else 5,
        file_sequence_number=None if status == ManifestEntryStatus.ADDED else 4, data_file=file)


def pyiceberg_files():
    io = PyArrowFileIO()
    lists = {1: [], 2: []}
    for version, codec in [(1, "null"), (1, "deflate"), (2, "null"), (2, "deflate"),
                           (2, "zstandard")]:
        path = f"{HERE}/v{version}-{codec}-m0.avro"
        output = io.new_output("file://" + path)
        with write_manifest(version, SPEC, SCHEMA, output, 77, codec) as writer:
            for number in range(8):
                status = ManifestEntryStatus.ADDED if number < 6 else ManifestEntryStatus.EXISTING
                writer.add_entry(entry(number, status, version))
        manifest = writer.to_manifest_file()
        manifest._data[0] = f"s3://bucket/t/metadata/v{version}-{codec}-m0.avro"
        lists[version].append(manifest)
    for version, manifests in lists.items():
        output = io.new_output(f"file://{HERE}/v{version}-list.avro")
        with write_manifest_list(version, output, 77, 66, 9, "deflate") as writer:
            writer.add_manifests(manifests)


def optional(name, kind, field_id):
    return {"name": name, "type": ["null", kind], "default": None, "field-id": field_id}


def pairs(name, field_id, key, value):
    return optional(name, {
        "type": "array", "logicalType": "map",
        "items": {"type": "record", "name": f"pair{key}", "fields": [
            {"name": "k", "type": "int", "field-id": key},
            {"name": "v", "type": value, "field-id": key + 1}]}}, field_id)


# Version 3, with names that are nobody's, fields in an order that is nobody's, and more of them.
PARTITION = {"type": "record", "name": "tuple", "fields": [
    optional("gone", {"type": "fixed", "name": "money", "size": 9, "logicalType": "decimal",
                      "precision": 20, "scale": 3}, 1001),
    {"name": "bucket", "type": ["int", "null"], "field-id": 1000},
]}
FILE = {"type": "record", "name": "file", "fields": [
    optional("size_of_blob", "long", 145),
    {"name": "bytes", "type": "long", "field-id": 104},
    {"name": "stranger", "type": {"type": "map", "values": ["null", "string", "double"]}},
    {"name": "tuple", "type": PARTITION, "field-id": 102},
    {"name": "what", "type": "int", "field-id": 134},
    {"name": "where", "type": "string", "field-id": 100},
    {"name": "flavour", "type": {"type": "enum", "name": "flavours", "symbols": ["A", "B"]},
     "field-id": 9001},
    {"name": "format", "type": "string", "field-id": 101},
    {"name": "rows", "type": "long", "field-id": 103},
    pairs("low", 125, 126, "bytes"),
    pairs("counts", 109, 119, "long"),
    optional("first", "long", 142),
    optional("of", "string", 143),
    optional("at", "long", 144),
    optional("order", "int", 140),
    optional("splits", {"type": "array", "items": "long", "element-id": 133}, 132),
]}
ENTRY = {"type": "record", "name": "entry", "fields": [
    {"name": "the_file", "type": FILE, "field-id": 2},
    {"name": "extra", "type": {"type": "fixed", "name": "four", "size": 4}, "field-id": 9002},
    {"name": "state", "type": "int", "field-id": 0},
    optional("seq", "long", 3),
    optional("file_seq", "long", 4),
    optional("snap", "long", 1),
]}


def fastavro_entry(number):
    return {
        "state": 2 if number == 3 else 1 if number < 5 else 0, "snap": None if number < 3 else 55,
        "seq": None if number < 3 else 6, "file_seq": None if number < 3 else 6, "extra": b"abcd",
        "the_file": {
            "size_of_blob": None, "bytes": 1000 + number,
            "stranger": {"a": "text", "b": 1.5, "c": None}, "what": 0,
            "tuple": {"bucket": number, "gone": decimal.Decimal("-12345678901234567.890")},
            "where": f"s3://bucket/t/{number}.parquet", "flavour": "B", "format": "parquet",
            "rows": 10 * (number + 1), "low": [{"k": 2, "v": b"b"}, {"k": 1, "v": b"a"}],
            "counts": [{"k": 7, "v": 70}], "first": 5000 if number == 1 else None, "of": None,
            "at": None, "order": None, "splits": [4],
        }}


def fastavro_files():
    metadata = {"format-version": "3", "partition-spec-id": "4", "content": "data"}
    for codec in ["null", "deflate", "snappy", "zstandard"]:
        with open(f"{HERE}/v3-{codec}-fastavro.avro", "wb") as out:
            fastavro.writer(out, fastavro.parse_schema(ENTRY), map(fastavro_entry, range(7)),
                            codec=codec,
                            metadata=metadata, sync_interval=300)


if __name__ == "__main__":
    sys.exit(pyiceberg_files() or fastavro_files())
