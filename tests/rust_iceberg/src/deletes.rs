//! Merge-on-read deletes. The crate writes their files, manifests and metadata, but has no
//! transaction that commits them: the table is taken out of the catalog and put back in.

use std::collections::HashMap;
use std::str::FromStr;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use arrow_array::{Int64Array, RecordBatch, StringArray};
use iceberg::arrow::schema_to_arrow_schema;
use iceberg::metadata_columns::{delete_file_path_field, delete_file_pos_field};
use iceberg::spec::{
    DataContentType, DataFile, FormatVersion, MAIN_BRANCH, ManifestContentType, ManifestFile,
    ManifestListWriter, ManifestWriterBuilder, Operation, PartitionKey, Schema, Snapshot,
    SnapshotSummaryCollector, Struct, Summary,
};
use iceberg::table::Table;
use iceberg::writer::base_writer::equality_delete_writer::{
    EqualityDeleteFileWriterBuilder, EqualityDeleteWriterConfig,
};
use iceberg::{Catalog, MetadataLocation};
use uuid::Uuid;

use crate::Result;
use crate::lake::{Lake, files_of, read, write};

/// The manifests of the current snapshot.
async fn manifests(table: &Table) -> Result<Vec<ManifestFile>> {
    let snapshot = table.metadata().current_snapshot().ok_or("a table without rows")?;
    Ok(table.manifest_list_reader(snapshot).load().await?.entries().to_vec())
}

/// The rows at these positions of every data file; a delete file for each partition.
pub async fn positions(lake: &Lake, positions: &[&str]) -> Result<()> {
    let table = lake.load().await?;
    if table.metadata().format_version() != FormatVersion::V2 {
        return Err("files of positions are for format version 2".into());
    }
    let mut wanted = Vec::new();
    for position in positions {
        wanted.push(position.parse::<i64>()?);
    }
    wanted.sort_unstable();
    let mut by_partition: HashMap<Struct, Vec<DataFile>> = HashMap::new();
    for manifest in manifests(&table).await? {
        if manifest.content == ManifestContentType::Deletes {
            continue;
        }
        for entry in manifest.load_manifest(table.file_io()).await?.entries() {
            if entry.is_alive() {
                let file = entry.data_file().clone();
                by_partition.entry(file.partition().clone()).or_default().push(file);
            }
        }
    }
    let mut files = Vec::new();
    for (partition, mut data) in by_partition {
        data.sort_by(|a, b| a.file_path().cmp(b.file_path()));
        files.extend(position_files(&table, partition, &data, &wanted).await?);
    }
    commit(lake, &table, files).await
}

async fn position_files(
    table: &Table,
    partition: Struct,
    data: &[DataFile],
    wanted: &[i64],
) -> Result<Vec<DataFile>> {
    let (mut paths, mut places) = (Vec::new(), Vec::new());
    for file in data {
        for position in wanted {
            if *position < i64::try_from(file.record_count())? {
                paths.push(file.file_path());
                places.push(*position);
            }
        }
    }
    let fields = vec![delete_file_path_field().clone(), delete_file_pos_field().clone()];
    let schema = Arc::new(Schema::builder().with_fields(fields).build()?);
    let batch = RecordBatch::try_new(
        Arc::new(schema_to_arrow_schema(&schema)?),
        vec![Arc::new(StringArray::from(paths)), Arc::new(Int64Array::from(places))],
    )?;
    let spec = table.metadata().default_partition_spec().as_ref().clone();
    let spec_id = spec.spec_id();
    let key = PartitionKey::new(spec, table.metadata().current_schema().clone(), partition.clone());
    let mut writer = files_of(table, schema, "positions")?.build();
    writer.write(&Some(key), &batch).await?;
    let mut files = Vec::new();
    for mut file in writer.close().await? {
        file.content(DataContentType::PositionDeletes).partition(partition.clone());
        files.push(file.partition_spec_id(spec_id).build()?);
    }
    Ok(files)
}

/// The rows whose `column` is that of a row of the file in the same partition.
pub async fn equal(lake: &Lake, column: &str, path: &str) -> Result<()> {
    let table = lake.load().await?;
    let schema = table.metadata().current_schema().clone();
    let id = schema.field_id_by_name(column).ok_or("no such column")?;
    let config = EqualityDeleteWriterConfig::new(vec![id], schema.clone())?;
    let projected = iceberg::arrow::arrow_schema_to_schema(config.projected_arrow_schema_ref())?;
    let files = files_of(&table, Arc::new(projected), "equal")?;
    let builder = EqualityDeleteFileWriterBuilder::new(files, config);
    let files = write(&table, &builder, read(&table, path)?).await?;
    commit(lake, &table, files).await
}

async fn write_manifest(table: &Table, id: i64, files: &[DataFile]) -> Result<ManifestFile> {
    let metadata = table.metadata();
    let path = format!("{}/metadata/{}-m0.avro", metadata.location(), Uuid::now_v7());
    let builder = ManifestWriterBuilder::new(
        table.file_io().new_output(path)?,
        Some(id),
        metadata.current_schema().clone(),
        metadata.default_partition_spec().as_ref().clone(),
    );
    let mut manifest = match metadata.format_version() {
        FormatVersion::V1 => return Err("format version 1 has no deletes".into()),
        FormatVersion::V2 => builder.build_v2_deletes(),
        FormatVersion::V3 => builder.build_v3_deletes(),
    };
    for file in files {
        manifest.add_file(file.clone(), -1)?;
    }
    Ok(manifest.write_manifest_file().await?)
}

/// With totals that go on from those of the current snapshot.
fn summary(table: &Table, files: &[DataFile]) -> Result<Summary> {
    let metadata = table.metadata();
    let mut collected = SnapshotSummaryCollector::default();
    for file in files {
        let schema = metadata.current_schema().clone();
        collected.add_file(file, schema, metadata.default_partition_spec().clone());
    }
    let mut properties = collected.build();
    let parent = metadata.current_snapshot().ok_or("a table without rows")?;
    for what in [
        "records",
        "data-files",
        "files-size",
        "delete-files",
        "position-deletes",
        "equality-deletes",
    ] {
        let total = format!("total-{what}");
        let mut sum = 0_u64;
        let before = parent.summary().additional_properties.get(&total);
        for number in [before, properties.get(&format!("added-{what}"))].into_iter().flatten() {
            sum += number.parse::<u64>()?;
        }
        properties.insert(total, sum.to_string());
    }
    Ok(Summary { operation: Operation::Delete, additional_properties: properties })
}

async fn commit(lake: &Lake, table: &Table, files: Vec<DataFile>) -> Result<()> {
    let metadata = table.metadata();
    let id = i64::try_from(Uuid::new_v4().as_u64_pair().0 >> 2)?;
    let parent = metadata.current_snapshot_id();
    let sequence = metadata.next_sequence_number();
    let mut all = manifests(table).await?;
    all.push(write_manifest(table, id, &files).await?);

    let path = format!("{}/metadata/snap-{id}-0-{}.avro", metadata.location(), Uuid::now_v7());
    let output = table.file_io().new_output(&path)?.writer().await?;
    let is_v3 = metadata.format_version() == FormatVersion::V3;
    let first_row_id = metadata.next_row_id();
    let mut list = if is_v3 {
        ManifestListWriter::v3(output, id, parent, sequence, Some(first_row_id))
    } else {
        ManifestListWriter::v2(output, id, parent, sequence)
    };
    list.add_manifests(all.into_iter())?;
    list.close().await?;

    let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_millis();
    let snapshot = Snapshot::builder()
        .with_snapshot_id(id)
        .with_parent_snapshot_id(parent)
        .with_sequence_number(sequence)
        .with_timestamp_ms(i64::try_from(now)?)
        .with_manifest_list(path)
        .with_summary(summary(table, &files)?)
        .with_schema_id(metadata.current_schema_id());
    let snapshot =
        if is_v3 { snapshot.with_row_range(first_row_id, 0).build() } else { snapshot.build() };
    let current = table.metadata_location_result()?;
    let changed = metadata
        .clone()
        .into_builder(Some(current.to_owned()))
        .set_branch_snapshot(snapshot, MAIN_BRANCH)?
        .build()?
        .metadata;
    let location =
        MetadataLocation::from_str(current)?.with_next_version().with_new_metadata(&changed);
    changed.write_to(table.file_io(), &location).await?;
    lake.catalog.drop_table(&lake.name).await?;
    lake.catalog.register_table(&lake.name, location.to_string()).await?;
    Ok(())
}
