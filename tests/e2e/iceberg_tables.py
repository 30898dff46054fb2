"""Iceberg tables as other writers leave them, for tests: pyiceberg with its SQLite catalog writes
data; merge-on-read deletes, which pyiceberg reads but does not write, are added through its own
manifest writers."""

import datetime
import itertools
import math
import pathlib
import random
import uuid

import cli
import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.manifest import (DataFile, DataFileContent, FileFormat, ManifestContent,
                                ManifestEntry, ManifestEntryStatus, ManifestWriterV2,
                                clear_manifest_cache, write_manifest_list)
from pyiceberg.table.snapshots import Operation, Snapshot, Summary
from pyiceberg.table.update import (AddSnapshotUpdate, AssertRefSnapshotId,
                                    SetSnapshotRefUpdate)
from pyiceberg.typedef import Record
from pyiceberg.utils.datetime import date_to_days, datetime_to_micros, time_to_micros

PATH_FIELD = 2147483546
POS_FIELD = 2147483545


class DeleteManifestWriter(ManifestWriterV2):
    def content(self):
        return ManifestContent.DELETES

    @property
    def _meta(self):
        return {**super()._meta, "content": "deletes"}


class Warehouse:
    """A namespace of a catalog named `lake`: a directory with a SQLite catalog, as pyiceberg makes
    it, unless another `catalog` is given, which then decides where tables are."""

    def __init__(self, root, db=None, catalog=None, namespace=("sales",)):
        self.namespace = tuple(namespace)
        if catalog is None:
            self.root = pathlib.Path(root)
            self.root.mkdir(parents=True, exist_ok=True)
            self.db = db or self.root / "catalog.db"
            catalog = SqlCatalog("lake", uri=f"sqlite:///{self.db}",
                                 warehouse=cli.place.location(self.root),
                                 **cli.place.catalog_properties)
        self.catalog = catalog
        for depth in range(1, len(self.namespace) + 1):
            self.catalog.create_namespace_if_not_exists(self.namespace[:depth])

    @property
    def uri(self):
        return f"sqlite:///{self.db}"

    def identifier(self, name):
        return (*self.namespace, name)

    def create(self, name, schema, properties=None, partition_by=None, version=2, location=None):
        """`partition_by`: names of columns, or (column, transform of pyiceberg)."""
        table = self.catalog.create_table(
            self.identifier(name), schema=schema, location=location,
            properties={"format-version": str(version), **(properties or {})})
        if partition_by:
            self.partition(name, partition_by)
        return self.load(name)

    def partition(self, name, partition_by):
        with self.load(name).update_spec() as update:
            for field in partition_by:
                if isinstance(field, str):
                    update.add_identity(field)
                else:
                    update.add_field(*field)

    def append(self, name, *batches):
        """Each batch (rows as dicts) is a snapshot with one file per partition; one commit."""
        table = self.load(name)
        schema = table.schema().as_arrow()
        with table.transaction() as transaction:
            for rows in batches:
                transaction.append(pa.Table.from_pylist(rows, schema=schema))

    def load(self, name):
        clear_manifest_cache()
        return self.catalog.load_table(self.identifier(name))

    def rows(self, name, snapshot_id=None):
        """All live rows as a sorted list, read by pyiceberg."""
        return sorted_rows(self.load(name).scan(snapshot_id=snapshot_id).to_arrow())

    def files(self, name):
        """Live data files: what pyiceberg plans to read."""
        return [task.file for task in self.load(name).scan().plan_files()]


def freeze(value):
    """A stand-in that compares as rows must: NaN is equal to NaN, 0.0 is not -0.0, null is not
    empty; a UUID is its bytes, as some readers give it."""
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else (value, math.copysign(1.0, value))
    if isinstance(value, uuid.UUID):
        return value.bytes
    if isinstance(value, dict):
        return tuple((name, freeze(item)) for name, item in value.items())
    if isinstance(value, (list, tuple)):
        return tuple(freeze(item) for item in value)
    return value


def sorted_rows(table):
    """Of an Arrow table, or of a list of rows as dicts."""
    rows = table if isinstance(table, list) else table.to_pylist()
    return sorted((freeze(row) for row in rows), key=repr)


def data_files(table):
    """(path, rows, partition record) of every live data file, in order."""
    return [(t.file.file_path, t.file.record_count, t.file.partition)
            for t in table.scan().plan_files()]


def local(location):
    return cli.place.path(location)


def write_parquet(table, schema_table, name, **options):
    path = f"{table.location()}/data/{uuid.uuid4()}-{name}.parquet"
    if path.startswith("s3:") and isinstance(cli.place, cli.Disk):  # In a bucket, and in no other.
        with table.io.new_output(path).create() as out:
            pq.write_table(schema_table, out, **options)
        return path, len(table.io.new_input(path))
    target = pathlib.Path(local(path))
    target.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(schema_table, target, **options)
    return path, target.stat().st_size


def _file(content, path, size, count, partition, spec_id, **extra):
    file = DataFile.from_args(
        content=content, file_path=path, file_format=FileFormat.PARQUET, partition=partition,
        record_count=count, file_size_in_bytes=size, column_sizes={}, value_counts={},
        null_value_counts={}, nan_value_counts={}, lower_bounds=extra.pop("lower_bounds", {}),
        upper_bounds=extra.pop("upper_bounds", {}), key_metadata=None, split_offsets=None,
        sort_order_id=None, **extra)
    file.spec_id = spec_id
    return file


def foreign_data_file(table, arrow, partition=None, **parquet_options):
    """As another engine wrote it: columns of any order and shape, by the field ids in their
    metadata; no column metrics in the manifest."""
    path, size = write_parquet(table, arrow, "foreign", **parquet_options)
    return _file(DataFileContent.DATA, path, size, arrow.num_rows, partition or Record(),
                 table.spec().spec_id, equality_ids=None)


def commit_data(table, files):
    """One snapshot that adds these data files."""
    with table.transaction() as transaction, \
            transaction.update_snapshot().fast_append() as append:
        for file in files:
            append.append_data_file(file)
    clear_manifest_cache()


def partitioned_files(table, rows):
    """A data file for each partition tuple, made by pyiceberg's transforms of single values."""
    schema, spec = table.schema(), table.spec()
    groups = {}
    for row in rows:
        key = partition_values(schema, spec, row)
        # NaN is a partition like any other, and -0.0 is not that of 0.0.
        groups.setdefault(repr(freeze(key)), (key, []))[1].append(row)
    return [foreign_data_file(table, pa.Table.from_pylist(members, schema=schema.as_arrow()),
                              Record(*key)) for key, members in groups.values()]


def partition_values(schema, spec, row):
    """Of one row, as a dict, by pyiceberg's transforms."""
    fields = [(field.transform, schema.find_field(field.source_id)) for field in spec.fields]
    return [transform.transform(source.field_type)(_internal(row[source.name]))
            for transform, source in fields]


def _internal(value):
    if isinstance(value, datetime.datetime):
        return datetime_to_micros(value)
    if isinstance(value, datetime.date):
        return date_to_days(value)
    if isinstance(value, datetime.time):
        return time_to_micros(value)
    return value


def with_ids(schema, fields):
    """Arrow fields with the field ids of the Iceberg schema, by name."""
    return pa.schema([field.with_metadata(
        {"PARQUET:field_id": str(schema.find_field(field.name).field_id)}) for field in fields])


def position_delete_file(table, positions, partition=None, bounds=True, spec_id=None):
    """`positions`: [(data file path, row position)], written sorted, as the specification asks;
    `spec_id`: an older spec than the newest."""
    positions = sorted(positions)
    fields = [pa.field("file_path", pa.string(), False, {"PARQUET:field_id": str(PATH_FIELD)}),
              pa.field("pos", pa.int64(), False, {"PARQUET:field_id": str(POS_FIELD)})]
    arrow = pa.table([[p for p, _ in positions], [n for _, n in positions]],
                     schema=pa.schema(fields))
    path, size = write_parquet(table, arrow, "deletes")
    extra = {"equality_ids": None}
    if bounds:
        paths = [p.encode() for p, _ in positions]
        extra["lower_bounds"] = {PATH_FIELD: min(paths)}
        extra["upper_bounds"] = {PATH_FIELD: max(paths)}
    return _file(DataFileContent.POSITION_DELETES, path, size, len(positions),
                 partition or Record(), table.spec().spec_id if spec_id is None else spec_id,
                 **extra)


def equality_delete_file(table, columns, rows, partition=None, spec_id=None):
    """`rows`: tuples of the values of `columns`; `spec_id`: an older spec than the newest."""
    schema = table.schema()
    arrow_types = schema.as_arrow()
    ids = [schema.find_field(name).field_id for name in columns]
    fields = [pa.field(name, arrow_types.field(name).type, True, {"PARQUET:field_id": str(i)})
              for name, i in zip(columns, ids)]
    arrow = pa.table([list(column) for column in zip(*rows)], schema=pa.schema(fields))
    path, size = write_parquet(table, arrow, "eq-deletes")
    return _file(DataFileContent.EQUALITY_DELETES, path, size, len(rows),
                 partition or Record(), table.spec().spec_id if spec_id is None else spec_id,
                 equality_ids=ids)


def _delete_summary(parent, delete_files):
    """What Java writes: totals go on from those of the parent."""
    positions = [f for f in delete_files if f.content == DataFileContent.POSITION_DELETES]
    equalities = [f for f in delete_files if f.content == DataFileContent.EQUALITY_DELETES]
    added = {"total-delete-files": len(delete_files),
             "total-files-size": sum(f.file_size_in_bytes for f in delete_files),
             "total-position-deletes": sum(f.record_count for f in positions),
             "total-equality-deletes": sum(f.record_count for f in equalities)}
    totals = {**{key: "0" for key in added}, "total-records": "0", "total-data-files": "0"}
    if parent and parent.summary:
        totals.update({key: value for key, value in parent.summary.additional_properties.items()
                       if key in totals})
    return {"added-delete-files": str(len(delete_files)),
            "added-position-deletes": str(added["total-position-deletes"]),
            "added-equality-deletes": str(added["total-equality-deletes"]),
            **{key: str(int(value) + added.get(key, 0)) for key, value in totals.items()}}


def commit_deletes(table, delete_files):
    """One snapshot that adds these delete files, as a merge-on-read DELETE does."""
    metadata = table.metadata
    parent = metadata.current_snapshot()
    snapshot_id = random.getrandbits(62)
    sequence = metadata.last_sequence_number + 1
    manifests = list(parent.manifests(table.io)) if parent else []
    by_spec = itertools.groupby(sorted(delete_files, key=lambda f: f.spec_id),
                                key=lambda f: f.spec_id)
    for number, (spec_id, files) in enumerate(by_spec):
        output = table.io.new_output(
            f"{table.location()}/metadata/{uuid.uuid4()}-m{number}.avro")
        with DeleteManifestWriter(metadata.specs()[spec_id], table.schema(), output, snapshot_id,
                                  "deflate") as writer:
            for file in files:
                writer.add_entry(ManifestEntry.from_args(
                    status=ManifestEntryStatus.ADDED, snapshot_id=snapshot_id,
                    sequence_number=None, file_sequence_number=None, data_file=file))
        manifests.append(writer.to_manifest_file())
    list_location = f"{table.location()}/metadata/snap-{snapshot_id}-0-{uuid.uuid4()}.avro"
    with write_manifest_list(2, table.io.new_output(list_location), snapshot_id,
                             parent.snapshot_id if parent else None, sequence,
                             "deflate") as writer:
        writer.add_manifests(manifests)
    snapshot = Snapshot(
        snapshot_id=snapshot_id, parent_snapshot_id=parent.snapshot_id if parent else None,
        sequence_number=sequence, manifest_list=list_location,
        summary=Summary(Operation.DELETE, **_delete_summary(parent, delete_files)),
        schema_id=metadata.current_schema_id)
    table.catalog.commit_table(
        table,
        (AssertRefSnapshotId(ref="main", snapshot_id=parent.snapshot_id if parent else None),),
        (AddSnapshotUpdate(snapshot=snapshot),
         SetSnapshotRefUpdate(ref_name="main", type="branch", snapshot_id=snapshot_id)))
    clear_manifest_cache()
    return snapshot_id
