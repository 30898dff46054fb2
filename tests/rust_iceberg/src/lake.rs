//! One table of a catalog named `lake`, its data files and appends to it.

use std::collections::HashMap;
use std::fs::File;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_cast::cast;
use arrow_schema::SchemaRef as ArrowSchemaRef;
use iceberg::arrow::{RecordBatchPartitionSplitter, schema_to_arrow_schema};
use iceberg::io::LocalFsStorageFactory;
use iceberg::spec::{
    DataFile, DataFileFormat, FormatVersion, PartitionKey, Schema, SchemaRef, UnboundPartitionSpec,
};
use iceberg::table::Table;
use iceberg::transaction::{ApplyTransactionAction, Transaction};
use iceberg::writer::base_writer::data_file_writer::DataFileWriterBuilder;
use iceberg::writer::file_writer::ParquetWriterBuilder;
use iceberg::writer::file_writer::location_generator::{
    DefaultFileNameGenerator, DefaultLocationGenerator,
};
use iceberg::writer::file_writer::rolling_writer::RollingFileWriterBuilder;
use iceberg::writer::{IcebergWriter, IcebergWriterBuilder};
use iceberg::{Catalog, CatalogBuilder, TableCreation, TableIdent};
use iceberg_catalog_sql::{SqlBindStyle, SqlCatalog, SqlCatalogBuilder};
use parquet::arrow::arrow_reader::{ArrowReaderOptions, ParquetRecordBatchReaderBuilder};
use uuid::Uuid;

use crate::Result;

pub type Files = RollingFileWriterBuilder<
    ParquetWriterBuilder,
    DefaultLocationGenerator,
    DefaultFileNameGenerator,
>;

fn version_named(name: &str) -> Result<FormatVersion> {
    Ok(match name {
        "1" => FormatVersion::V1,
        "2" => FormatVersion::V2,
        "3" => FormatVersion::V3,
        other => return Err(format!("no such format version: {other}").into()),
    })
}

/// What writes new Parquet files of the table, in the form that is Rust's default.
pub fn files_of(table: &Table, schema: SchemaRef, prefix: &str) -> Result<Files> {
    let properties = table.metadata().table_properties()?;
    Ok(RollingFileWriterBuilder::new_with_default_file_size(
        ParquetWriterBuilder::from_table_properties(&properties, schema),
        table.file_io().clone(),
        DefaultLocationGenerator::new(table.metadata())?,
        DefaultFileNameGenerator::new(
            prefix.to_owned(),
            Some(Uuid::now_v7().to_string()),
            DataFileFormat::Parquet,
        ),
    ))
}

/// The rows of a Parquet file, as the table's current schema has them; columns go by name.
pub fn read(table: &Table, path: &str) -> Result<Vec<RecordBatch>> {
    let schema: ArrowSchemaRef =
        Arc::new(schema_to_arrow_schema(table.metadata().current_schema())?);
    let options = ArrowReaderOptions::new().with_skip_arrow_metadata(true);
    let source = ParquetRecordBatchReaderBuilder::try_new_with_options(File::open(path)?, options)?;
    let mut batches = Vec::new();
    for batch in source.build()? {
        let batch = batch?;
        let mut columns = Vec::new();
        for field in schema.fields() {
            let column = batch.column_by_name(field.name());
            let column = column.ok_or_else(|| format!("{path} has no {}", field.name()))?;
            columns.push(cast(column, field.data_type())?);
        }
        batches.push(RecordBatch::try_new(schema.clone(), columns)?);
    }
    Ok(batches)
}

/// A file for each partition that the batches have rows of.
pub async fn write<B: IcebergWriterBuilder>(
    table: &Table,
    builder: &B,
    batches: Vec<RecordBatch>,
) -> Result<Vec<DataFile>> {
    let mut files = Vec::new();
    for batch in batches {
        for (key, rows) in split(table, batch)? {
            let mut writer = builder.build(key).await?;
            writer.write(rows).await?;
            files.extend(writer.close().await?);
        }
    }
    Ok(files)
}

fn split(table: &Table, batch: RecordBatch) -> Result<Vec<(Option<PartitionKey>, RecordBatch)>> {
    let spec = table.metadata().default_partition_spec().clone();
    if spec.is_unpartitioned() {
        return Ok(vec![(None, batch)]);
    }
    let schema = table.metadata().current_schema().clone();
    let splitter = RecordBatchPartitionSplitter::try_new_with_computed_values(schema, spec)?;
    Ok(splitter.split(&batch)?.into_iter().map(|(key, rows)| (Some(key), rows)).collect())
}

pub struct Lake {
    pub catalog: SqlCatalog,
    pub name: TableIdent,
}

impl Lake {
    pub async fn open(uri: &str, warehouse: &str, table: &str) -> Result<Lake> {
        let catalog = SqlCatalogBuilder::default()
            .uri(uri)
            .warehouse_location(warehouse)
            .sql_bind_style(SqlBindStyle::QMark)
            .with_storage_factory(Arc::new(LocalFsStorageFactory))
            .load("lake", HashMap::new())
            .await?;
        Ok(Lake { catalog, name: TableIdent::from_strs(table.split('.'))? })
    }

    pub async fn load(&self) -> Result<Table> {
        Ok(self.catalog.load_table(&self.name).await?)
    }

    pub async fn create(
        &self,
        version: &str,
        schema: &str,
        spec: &str,
        properties: &[&str],
    ) -> Result<()> {
        let namespace = self.name.namespace();
        if !self.catalog.namespace_exists(namespace).await? {
            self.catalog.create_namespace(namespace, HashMap::new()).await?;
        }
        let mut pairs = Vec::new();
        for property in properties {
            let (key, value) = property.split_once('=').ok_or("a property without a value")?;
            pairs.push((key.to_owned(), value.to_owned()));
        }
        let creation = TableCreation::builder()
            .name(self.name.name().to_owned())
            .schema(serde_json::from_str::<Schema>(schema)?)
            .partition_spec(serde_json::from_str::<UnboundPartitionSpec>(spec)?)
            .properties(pairs)
            .format_version(version_named(version)?)
            .build();
        self.catalog.create_table(namespace, creation).await?;
        Ok(())
    }

    pub async fn append(&self, paths: &[&str]) -> Result<()> {
        for path in paths {
            let table = self.load().await?;
            let schema = table.metadata().current_schema().clone();
            let builder = DataFileWriterBuilder::new(files_of(&table, schema, "rust")?);
            let files = write(&table, &builder, read(&table, path)?).await?;
            let transaction = Transaction::new(&table);
            let append = transaction.fast_append().add_data_files(files);
            append.apply(transaction)?.commit(&self.catalog).await?;
        }
        Ok(())
    }
}
