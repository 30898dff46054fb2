//! Files in the forms that ArrowWriter can give them.

use std::fs::File;

use arrow_schema::{DataType, Schema};
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::basic::{Compression, Encoding};
use parquet::file::properties::{
    EnabledStatistics, WriterProperties, WriterPropertiesBuilder, WriterVersion,
};
use parquet::schema::types::ColumnPath;

use crate::Result;

fn codec_named(name: &str) -> Result<Compression> {
    Ok(match name {
        "none" => Compression::UNCOMPRESSED,
        "snappy" => Compression::SNAPPY,
        "gzip" => Compression::GZIP(Default::default()),
        "zstd" => Compression::ZSTD(Default::default()),
        "lz4_raw" => Compression::LZ4_RAW,
        "brotli" => Compression::BROTLI(Default::default()),
        other => return Err(format!("no such codec: {other}").into()),
    })
}

/// The forms that are no dictionary, by type.
fn encode_columns(
    mut builder: WriterPropertiesBuilder,
    schema: &Schema,
) -> WriterPropertiesBuilder {
    builder = builder.set_dictionary_enabled(false);
    for (number, field) in schema.fields().iter().enumerate() {
        let encoding = match field.data_type() {
            DataType::Utf8 | DataType::Binary if number % 2 == 0 => Encoding::DELTA_BYTE_ARRAY,
            DataType::Utf8 | DataType::Binary => Encoding::DELTA_LENGTH_BYTE_ARRAY,
            DataType::Float32 | DataType::Float64 => Encoding::BYTE_STREAM_SPLIT,
            DataType::FixedSizeBinary(_) => Encoding::BYTE_STREAM_SPLIT,
            DataType::Int32 | DataType::Int64 if number % 2 == 0 => Encoding::BYTE_STREAM_SPLIT,
            kind if kind.is_integer() || kind.is_temporal() => Encoding::DELTA_BINARY_PACKED,
            DataType::Boolean => Encoding::RLE,
            _ => continue,
        };
        builder = builder.set_column_encoding(ColumnPath::from(field.name().as_str()), encoding);
    }
    builder
}

fn properties(shape: &str, codec: &str, schema: &Schema) -> Result<WriterProperties> {
    let builder = WriterProperties::builder().set_compression(codec_named(codec)?);
    let builder = match shape {
        "default" => builder,
        "version 2" => builder.set_writer_version(WriterVersion::PARQUET_2_0),
        "delta" => encode_columns(builder, schema),
        "delta, version 2" => {
            encode_columns(builder, schema).set_writer_version(WriterVersion::PARQUET_2_0)
        }
        "plain" => builder.set_dictionary_enabled(false),
        "small pages" => builder
            .set_data_page_size_limit(16 * 1024)
            .set_data_page_row_count_limit(1000)
            .set_write_batch_size(500),
        "dictionaries given up" => builder
            .set_dictionary_page_size_limit(10_000)
            .set_write_batch_size(200)
            .set_write_page_header_statistics(true),
        "bloom filters" => builder.set_bloom_filter_enabled(true).set_bloom_filter_max_ndv(20_000),
        "statistics of chunks" => builder
            .set_statistics_enabled(EnabledStatistics::Chunk)
            .set_statistics_truncate_length(Some(8)),
        "no statistics" => {
            builder.set_statistics_enabled(EnabledStatistics::None).set_offset_index_disabled(true)
        }
        "short bounds" => builder
            .set_statistics_truncate_length(Some(4))
            .set_column_index_truncate_length(Some(4))
            .set_write_page_header_statistics(true),
        "row groups" => builder.set_max_row_group_row_count(Some(3000)),
        other => return Err(format!("no such shape: {other}").into()),
    };
    Ok(builder.build())
}

pub fn write(shape: &str, codec: &str, from: &str, to: &str) -> Result<()> {
    let source = ParquetRecordBatchReaderBuilder::try_new(File::open(from)?)?;
    let schema = source.schema().clone();
    let target = File::create_new(to)?;
    let chosen = properties(shape, codec, &schema)?;
    let mut writer = ArrowWriter::try_new(target, schema, Some(chosen))?;
    for batch in source.build()? {
        writer.write(&batch?)?;
    }
    writer.close()?;
    Ok(())
}
