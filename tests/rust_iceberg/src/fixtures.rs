//! Metadata files for the tests of lithify's readers: the same values in format versions 1 to 3.
//! They name locations below `file:///lake` and are never there: memory is their file system.

use std::collections::HashMap;
use std::fs;
use std::path::Path;

use iceberg::TableCreation;
use iceberg::io::FileIO;
use iceberg::spec::{
    BlobMetadata, DataContentType, DataFile, DataFileBuilder, DataFileFormat, Datum, FormatVersion,
    Literal, MAIN_BRANCH, ManifestFile, ManifestListWriter, ManifestWriterBuilder, NestedField,
    NullOrder, Operation, PrimitiveType, Schema, Snapshot, SnapshotReference, SnapshotRetention,
    SortDirection, SortField, SortOrder, StatisticsFile, Struct, Summary, TableMetadata,
    TableMetadataBuilder, Transform, Type, UnboundPartitionSpec,
};
use uuid::Uuid;

use crate::Result;

const FIRST: i64 = 6600000000000000001;
const SECOND: i64 = 7700000000000000002;
const FIRST_MS: i64 = 1760000000000;
const SECOND_MS: i64 = 1760000060000;
const KEY: &str = "f79c3e09-677c-4bbd-a479-3f349cb785e7";
const UNIT: i64 = 1_000_000;

struct Fixtures {
    version: FormatVersion,
    location: String,
    io: FileIO,
}

fn is_v1(version: FormatVersion) -> bool {
    version == FormatVersion::V1
}

fn schema(version: FormatVersion) -> Result<Schema> {
    let mut columns = vec![
        ("region", PrimitiveType::String),
        ("ts", PrimitiveType::Timestamptz),
        ("price", PrimitiveType::Decimal { precision: 9, scale: 2 }),
        ("key", PrimitiveType::Uuid),
        ("score", PrimitiveType::Double),
        ("day", PrimitiveType::Date),
        ("ok", PrimitiveType::Boolean),
        ("ratio", PrimitiveType::Float),
        ("blob", PrimitiveType::Binary),
        ("code", PrimitiveType::Fixed(3)),
        ("at", PrimitiveType::Time),
        ("naive", PrimitiveType::Timestamp),
        ("count", PrimitiveType::Int),
        ("wide", PrimitiveType::Decimal { precision: 38, scale: 10 }),
    ];
    if version == FormatVersion::V3 {
        columns.push(("nanos", PrimitiveType::TimestampNs));
    }
    let mut fields =
        vec![NestedField::required(1, "id", Type::Primitive(PrimitiveType::Long)).into()];
    for (number, (name, kind)) in columns.into_iter().enumerate() {
        let id = i32::try_from(number)? + 2;
        fields.push(NestedField::optional(id, name, Type::Primitive(kind)).into());
    }
    Ok(Schema::builder().with_fields(fields).with_identifier_field_ids([1]).build()?)
}

/// Every type that a partition value can have but UUID, which the crate cannot write.
fn spec() -> Result<UnboundPartitionSpec> {
    let mut fields = UnboundPartitionSpec::builder();
    for (source, name, transform) in [
        (2, "region", Transform::Identity),
        (3, "ts_day", Transform::Day),
        (1, "id_bucket", Transform::Bucket(16)),
        (4, "price", Transform::Identity),
        (5, "key_bucket", Transform::Bucket(8)),
        (6, "score", Transform::Identity),
        (7, "day", Transform::Identity),
        (8, "ok", Transform::Identity),
        (9, "ratio", Transform::Identity),
        (10, "blob", Transform::Identity),
        (11, "code", Transform::Identity),
        (12, "at", Transform::Identity),
        (13, "naive_hour", Transform::Hour),
        (1, "id_part", Transform::Truncate(10)),
        (7, "day_month", Transform::Month),
        (15, "wide", Transform::Identity),
        (14, "count_gone", Transform::Void),
    ] {
        fields = fields.add_partition_field(source, name, transform)?;
    }
    Ok(fields.build())
}

fn partition() -> Struct {
    Struct::from_iter([
        Some(Literal::string("eu")),
        Some(Literal::date(17486)),
        Some(Literal::int(11)),
        Some(Literal::decimal(-1420)),
        Some(Literal::int(3)),
        Some(Literal::double(0.5)),
        Some(Literal::date(17486)),
        Some(Literal::bool(true)),
        Some(Literal::float(-0.25_f32)),
        Some(Literal::binary([0, 255, 7])),
        Some(Literal::fixed([1, 2, 3])),
        Some(Literal::time(3600 * UNIT + 5)),
        Some(Literal::int(419_673)),
        Some(Literal::long(-20_i64)),
        Some(Literal::int(574)),
        Some(Literal::decimal(-(12_345_678_901_234_567_i128 * 1000 + 890))),
        None,
    ])
}

/// The same but for values at the edge: a NaN, a zero below zero, an empty text.
fn odd_partition() -> Struct {
    let mut values: Vec<Option<Literal>> = partition().fields().to_vec();
    values[0] = Some(Literal::string(""));
    values[1] = Some(Literal::date(-1));
    values[3] = Some(Literal::decimal(127));
    values[5] = Some(Literal::double(f64::NAN));
    values[8] = Some(Literal::float(-0.0_f32));
    values[9] = Some(Literal::binary([]));
    values[12] = Some(Literal::int(-1));
    values[15] = Some(Literal::decimal(0));
    Struct::from_iter(values)
}

fn no_partition() -> Struct {
    Struct::from_iter(vec![None; partition().fields().len()])
}

fn bounds(version: FormatVersion, at: i64) -> Result<HashMap<i32, Datum>> {
    let decimal = |precision, scale, bytes: &[u8]| {
        Datum::try_from_bytes(bytes, PrimitiveType::Decimal { precision, scale })
    };
    let mut bounds = HashMap::from([
        (1, Datum::long(at)),
        (2, Datum::string(format!("eu{at}"))),
        (3, Datum::timestamptz_micros(1_510_871_468_000_000 + at)),
        (4, decimal(9, 2, &[0xFA, 0x74])?),
        (5, Datum::uuid_from_str(KEY)?),
        (6, Datum::double(0.5)),
        (7, Datum::date(17486)),
        (8, Datum::bool(at > 0)),
        (9, Datum::float(-0.25_f32)),
        (10, Datum::binary([0, 255])),
        (11, Datum::fixed([1, 2, 3])),
        (12, Datum::time_micros(3600 * UNIT)?),
        (13, Datum::timestamp_micros(-at)),
        (14, Datum::int(i32::try_from(at)?)),
        (15, decimal(38, 10, &[0xFF, 0x7F])?),
    ]);
    if version == FormatVersion::V3 {
        bounds.insert(16, Datum::timestamp_nanos(1_510_871_468_000_000_001));
    }
    Ok(bounds)
}

impl Fixtures {
    fn path(&self, name: &str) -> String {
        format!("{}/{name}", self.location)
    }

    fn file(&self, number: u64, partition: Struct) -> DataFileBuilder {
        let mut file = DataFileBuilder::default();
        file.content(DataContentType::Data)
            .file_path(self.path(&format!("data/{number}.parquet")))
            .file_format(DataFileFormat::Parquet)
            .partition(partition)
            .record_count(100 + number)
            .file_size_in_bytes(10_000 + number);
        file
    }

    /// A file with all there is to say of it.
    fn whole_file(&self) -> Result<DataFile> {
        Ok(self
            .file(0, partition())
            .column_sizes(HashMap::from([(1, 400), (2, 500)]))
            .value_counts(HashMap::from([(1, 100), (2, 100), (6, 100)]))
            .null_value_counts(HashMap::from([(1, 0), (2, 3)]))
            .nan_value_counts(HashMap::from([(6, 1)]))
            .lower_bounds(bounds(self.version, 0)?)
            .upper_bounds(bounds(self.version, 100)?)
            .split_offsets(Some(vec![4, 5000]))
            .sort_order_id(1)
            .build()?)
    }

    async fn data_manifest(&self, table: &TableMetadata) -> Result<ManifestFile> {
        let builder = ManifestWriterBuilder::new(
            self.io.new_output(self.path("metadata/m0.avro"))?,
            Some(SECOND),
            table.current_schema().clone(),
            table.default_partition_spec().as_ref().clone(),
        );
        let mut manifest = match self.version {
            FormatVersion::V1 => builder.build_v1(),
            FormatVersion::V2 => builder.build_v2_data(),
            FormatVersion::V3 => builder.build_v3_data(),
        };
        let mut old = self.file(2, odd_partition());
        if self.version == FormatVersion::V3 {
            old.first_row_id(Some(5000));
        }
        let sequence = if is_v1(self.version) { 0 } else { 1 };
        manifest.add_file(self.whole_file()?, -1)?;
        manifest.add_file(self.file(1, no_partition()).build()?, -1)?;
        manifest.add_existing_file(old.build()?, FIRST, sequence, Some(sequence))?;
        let gone = self.file(3, partition()).build()?;
        manifest.add_delete_file(gone, sequence, Some(sequence))?;
        Ok(manifest.write_manifest_file().await?)
    }

    async fn delete_manifest(&self, table: &TableMetadata) -> Result<ManifestFile> {
        let builder = ManifestWriterBuilder::new(
            self.io.new_output(self.path("metadata/m1.avro"))?,
            Some(SECOND),
            table.current_schema().clone(),
            table.default_partition_spec().as_ref().clone(),
        );
        let target = self.path("data/0.parquet");
        let mut positions = self.file(4, partition());
        positions.content(DataContentType::PositionDeletes);
        positions.referenced_data_file(Some(target.clone()));
        let mut manifest = if self.version == FormatVersion::V3 {
            positions
                .file_path(self.path("data/4.puffin"))
                .file_format(DataFileFormat::Puffin)
                .content_offset(Some(4))
                .content_size_in_bytes(Some(44));
            builder.build_v3_deletes()
        } else {
            let name = |path: &str| HashMap::from([(i32::MAX - 101, Datum::string(path))]);
            positions.lower_bounds(name(&target)).upper_bounds(name(&target));
            builder.build_v2_deletes()
        };
        manifest.add_file(positions.build()?, -1)?;
        let mut equal = self.file(5, no_partition());
        equal.content(DataContentType::EqualityDeletes).equality_ids(Some(vec![1, 2]));
        manifest.add_existing_file(equal.build()?, FIRST, 1, Some(1))?;
        Ok(manifest.write_manifest_file().await?)
    }

    async fn list(&self, manifests: Vec<ManifestFile>) -> Result<Option<u64>> {
        let output = self.io.new_output(self.path("metadata/list.avro"))?.writer().await?;
        let mut list = match self.version {
            FormatVersion::V1 => ManifestListWriter::v1(output, SECOND, Some(FIRST)),
            FormatVersion::V2 => ManifestListWriter::v2(output, SECOND, Some(FIRST), 2),
            FormatVersion::V3 => ManifestListWriter::v3(output, SECOND, Some(FIRST), 2, Some(1000)),
        };
        list.add_manifests(manifests.into_iter())?;
        let next = list.next_row_id();
        list.close().await?;
        Ok(next)
    }

    fn creation(&self) -> Result<TableCreation> {
        let order = SortOrder::builder()
            .with_sort_field(
                SortField::builder()
                    .source_id(2)
                    .transform(Transform::Identity)
                    .direction(SortDirection::Descending)
                    .null_order(NullOrder::Last)
                    .build(),
            )
            .build_unbound()?;
        Ok(TableCreation::builder()
            .name("t".to_owned())
            .location(self.location.clone())
            .schema(schema(self.version)?)
            .partition_spec(spec()?)
            .sort_order(order)
            .properties([("owner".to_owned(), "rust".to_owned())])
            .format_version(self.version)
            .build())
    }

    fn snapshot(&self, id: i64, rows: (u64, u64)) -> Snapshot {
        let first = id == FIRST;
        let summary = HashMap::from([("added-records".to_owned(), rows.1.to_string())]);
        let sequence = if first { 1 } else { 2 };
        let list = if first { "metadata/first.avro" } else { "metadata/list.avro" };
        let snapshot = Snapshot::builder()
            .with_snapshot_id(id)
            .with_parent_snapshot_id((!first).then_some(FIRST))
            .with_sequence_number(if is_v1(self.version) { 0 } else { sequence })
            .with_timestamp_ms(if first { FIRST_MS } else { SECOND_MS })
            .with_manifest_list(self.path(list))
            .with_summary(Summary { operation: Operation::Append, additional_properties: summary })
            .with_schema_id(0);
        if self.version == FormatVersion::V3 {
            snapshot.with_row_range(rows.0, rows.1).build()
        } else {
            snapshot.build()
        }
    }

    fn metadata(&self, rows: u64) -> Result<TableMetadata> {
        let before = TableMetadataBuilder::from_table_creation(self.creation()?)?
            .assign_uuid(Uuid::parse_str(KEY)?)
            .set_branch_snapshot(self.snapshot(FIRST, (0, 1000)), MAIN_BRANCH)?
            .set_ref(
                "first",
                SnapshotReference::new(FIRST, SnapshotRetention::Tag { max_ref_age_ms: Some(9) }),
            )?
            .build()?
            .metadata;
        let after = before
            .into_builder(Some(self.path("metadata/00001-a.metadata.json")))
            .set_branch_snapshot(self.snapshot(SECOND, (1000, rows)), MAIN_BRANCH)?
            .set_statistics(StatisticsFile {
                snapshot_id: SECOND,
                statistics_path: self.path("metadata/s.stats"),
                file_size_in_bytes: 413,
                file_footer_size_in_bytes: 42,
                key_metadata: None,
                blob_metadata: vec![BlobMetadata {
                    r#type: "apache-datasketches-theta-v1".to_owned(),
                    snapshot_id: SECOND,
                    sequence_number: 2,
                    fields: vec![1],
                    properties: HashMap::new(),
                }],
            })
            .build()?;
        Ok(after.metadata)
    }
}

pub async fn write(directory: &str) -> Result<()> {
    for version in [FormatVersion::V1, FormatVersion::V2, FormatVersion::V3] {
        let name = version.to_string();
        let location = format!("file:///lake/{name}");
        let fixtures = Fixtures { version, location, io: FileIO::new_with_memory() };
        let table = fixtures.metadata(0)?;
        let mut manifests = vec![fixtures.data_manifest(&table).await?];
        let mut written = vec!["m0", "list"];
        if !is_v1(version) {
            manifests.push(fixtures.delete_manifest(&table).await?);
            written.push("m1");
        }
        let next = fixtures.list(manifests).await?;
        for file in written {
            let bytes = fixtures.io.new_input(fixtures.path(&format!("metadata/{file}.avro")))?;
            fs::write(
                Path::new(directory).join(format!("{name}-{file}.avro")),
                bytes.read().await?,
            )?;
        }
        let metadata = fixtures.metadata(next.unwrap_or(1000) - 1000)?;
        let text = serde_json::to_string_pretty(&metadata)?;
        fs::write(Path::new(directory).join(format!("{name}.metadata.json")), text + "\n")?;
    }
    Ok(())
}
