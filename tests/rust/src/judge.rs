//! What the files hold: a number for all rows, whatever their order, and answers to questions. Row
//! groups and pages are skipped by statistics, column indexes and bloom filters, the other rows by a
//! filter that decodes one column first.

use std::fs::File;
use std::io::BufRead;
use std::sync::Arc;

use arrow_arith::boolean;
use arrow_array::cast::AsArray;
use arrow_array::types::{Date32Type, Int8Type, Int32Type, Int64Type, UInt32Type, UInt64Type};
use arrow_array::{
    Array, ArrayRef, BooleanArray, RecordBatch, Scalar, StringArray, UInt64Array, make_array,
};
use arrow_cast::cast;
use arrow_cast::display::{ArrayFormatter, FormatOptions};
use arrow_ord::cmp;
use arrow_schema::{ArrowError, DataType};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::statistics::StatisticsConverter;
use parquet::arrow::arrow_reader::{
    ArrowPredicateFn, ArrowReaderOptions, ParquetRecordBatchReaderBuilder, RowFilter, RowSelection,
    RowSelector,
};
use parquet::bloom_filter::Sbbf;
use parquet::file::metadata::PageIndexPolicy;

use crate::Result;

type Reader = ParquetRecordBatchReaderBuilder<File>;

/// Column, operator, values as text; fields of a line, between tabs.
struct Question {
    column: String,
    operator: String,
    values: Vec<String>,
}

impl Question {
    fn parse(line: &str) -> Result<Question> {
        let mut fields = line.split('\t').map(str::to_owned);
        let column = fields.next().ok_or("a question without a column")?;
        let operator = fields.next().ok_or("a question without an operator")?;
        Ok(Question { column, operator, values: fields.collect() })
    }

    fn values_as(&self, kind: &DataType) -> Result<Vec<ArrayRef>> {
        let text =
            |value: &String| -> ArrayRef { Arc::new(StringArray::from(vec![value.clone()])) };
        let typed = self.values.iter().map(|value| cast(&text(value), kind));
        let typed = typed.collect::<std::result::Result<Vec<_>, _>>()?;
        if typed.iter().any(|value| value.null_count() > 0) {
            return Err(format!("not a {kind}: {:?}", self.values).into());
        }
        Ok(typed)
    }
}

/// Times as they are in UTC, without its name: zones by name would need a database of them.
fn unzoned(array: &ArrayRef) -> std::result::Result<ArrayRef, ArrowError> {
    match array.data_type() {
        DataType::Timestamp(unit, Some(_)) => {
            let data = array.to_data().into_builder().data_type(DataType::Timestamp(*unit, None));
            Ok(make_array(data.build()?))
        }
        _ => Ok(array.clone()),
    }
}

fn unzoned_type(kind: &DataType) -> DataType {
    match kind {
        DataType::Timestamp(unit, Some(_)) => DataType::Timestamp(*unit, None),
        other => other.clone(),
    }
}

fn open(path: &str) -> Result<Reader> {
    let options = ArrowReaderOptions::new().with_page_index_policy(PageIndexPolicy::Optional);
    Ok(Reader::try_new_with_options(File::open(path)?, options)?)
}

// ------------------------------------------------------------------------------------------- rows

fn hash_text(text: &str, seed: u64) -> u64 {
    text.bytes().fold(seed, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}

/// The sum of a hash of each row, its columns in the order of their names.
fn hash_batch(batch: &RecordBatch) -> Result<u64> {
    let options = FormatOptions::new().with_null("\u{1}");
    let schema = batch.schema();
    let arrays = batch.columns().iter().map(unzoned).collect::<std::result::Result<Vec<_>, _>>()?;
    let mut columns: Vec<(&str, ArrayFormatter)> = Vec::new();
    for (field, array) in schema.fields().iter().zip(&arrays) {
        columns.push((field.name(), ArrayFormatter::try_new(array.as_ref(), &options)?));
    }
    columns.sort_by_key(|(name, _)| *name);
    let mut sum = 0_u64;
    for row in 0..batch.num_rows() {
        let mut hash = 0xcbf2_9ce4_8422_2325;
        for (name, column) in &columns {
            hash = hash_text(&column.value(row).try_to_string()?, hash_text(name, hash));
            hash = hash_text("\u{2}", hash);
        }
        sum = sum.wrapping_add(hash);
    }
    Ok(sum)
}

fn read_all(files: &[String]) -> Result<(u64, u64)> {
    let mut rows = 0;
    let mut sum = 0_u64;
    for path in files {
        for batch in open(path)?.build()? {
            let batch = batch?;
            rows += batch.num_rows() as u64;
            sum = sum.wrapping_add(hash_batch(&batch)?);
        }
    }
    Ok((rows, sum))
}

// ---------------------------------------------------------------------------------------- skipping

/// What is stated of some row groups or pages.
struct Stated {
    low: ArrayRef,
    high: ArrayRef,
    nulls: UInt64Array,
    rows: Vec<u64>,
}

impl Stated {
    /// Whether each may have a row that the question asks for. What is not stated is null.
    fn may_match(&self, question: &Question, values: &[ArrayRef]) -> Result<Vec<bool>> {
        let mut may: Vec<bool> = (0..self.rows.len())
            .map(|i| {
                let nulls = self.nulls.is_valid(i).then(|| self.nulls.value(i));
                match question.operator.as_str() {
                    "is null" => nulls != Some(0),
                    _ => nulls != Some(self.rows[i]),
                }
            })
            .collect();
        let is_false = |answers: &BooleanArray, i: usize| answers.is_valid(i) && !answers.value(i);
        let mut within = vec![values.is_empty(); may.len()];
        for value in values {
            let value = Scalar::new(value);
            let above = cmp::lt_eq(&self.low, &value)?;
            let below = cmp::gt_eq(&self.high, &value)?;
            let less = cmp::lt(&self.low, &value)?;
            let more = cmp::gt(&self.high, &value)?;
            for (i, found) in within.iter_mut().enumerate() {
                *found |= match question.operator.as_str() {
                    "<" => !is_false(&less, i),
                    ">" => !is_false(&more, i),
                    _ => !is_false(&above, i) && !is_false(&below, i),
                };
            }
        }
        may.iter_mut().zip(within).for_each(|(may, within)| *may &= within);
        Ok(may)
    }
}

/// Whether the filter knows that the value is not there; false of types that are not asked about.
fn is_absent(filter: &Sbbf, value: &ArrayRef) -> bool {
    match value.data_type() {
        DataType::Utf8 => !filter.check(value.as_string::<i32>().value(0)),
        DataType::Int8 => !filter.check(&i32::from(value.as_primitive::<Int8Type>().value(0))),
        DataType::Int32 => !filter.check(&value.as_primitive::<Int32Type>().value(0)),
        DataType::Int64 => !filter.check(&value.as_primitive::<Int64Type>().value(0)),
        DataType::UInt32 => {
            !filter.check(&value.as_primitive::<UInt32Type>().value(0).cast_signed())
        }
        DataType::UInt64 => {
            !filter.check(&value.as_primitive::<UInt64Type>().value(0).cast_signed())
        }
        DataType::Date32 => !filter.check(&value.as_primitive::<Date32Type>().value(0)),
        _ => false,
    }
}

/// How much was skipped, for the record.
#[derive(Default)]
struct Skipped {
    by_statistics: usize,
    by_filter: usize,
    pages: usize,
}

struct Asked<'a> {
    question: &'a Question,
    values: Vec<ArrayRef>,
    skipped: &'a mut Skipped,
}

impl Asked<'_> {
    /// The row groups that are left, and of their pages the rows.
    fn choose(&mut self, reader: &Reader) -> Result<(Vec<usize>, Option<RowSelection>)> {
        let metadata = reader.metadata().clone();
        let schema = reader.schema().clone();
        let of = StatisticsConverter::try_new(
            &self.question.column,
            &schema,
            metadata.file_metadata().schema_descr(),
        )?
        .with_missing_null_counts_as_zero(false);
        let groups = metadata.row_groups();
        let stated = Stated {
            low: unzoned(&of.row_group_mins(groups)?)?,
            high: unzoned(&of.row_group_maxes(groups)?)?,
            nulls: of.row_group_null_counts(groups)?,
            rows: groups.iter().map(|group| group.num_rows() as u64).collect(),
        };
        let mut left = Vec::new();
        for (group, may) in stated.may_match(self.question, &self.values)?.iter().enumerate() {
            if !may {
                self.skipped.by_statistics += 1;
            } else if self.is_filtered(reader, group, of.parquet_column_index())? {
                self.skipped.by_filter += 1;
            } else {
                left.push(group);
            }
        }
        let selection = self.choose_pages(reader, &of, &left)?;
        Ok((left, selection))
    }

    fn is_filtered(&self, reader: &Reader, group: usize, leaf: Option<usize>) -> Result<bool> {
        if !matches!(self.question.operator.as_str(), "=" | "in") {
            return Ok(false);
        }
        let Some(leaf) = leaf else { return Ok(false) };
        let filter = reader.get_row_group_column_bloom_filter(group, leaf)?;
        Ok(filter.is_some_and(|filter| self.values.iter().all(|value| is_absent(&filter, value))))
    }

    /// None where a row group has no index: all its rows are read.
    fn choose_pages(
        &mut self,
        reader: &Reader,
        of: &StatisticsConverter,
        left: &[usize],
    ) -> Result<Option<RowSelection>> {
        let metadata = reader.metadata();
        let (Some(index), Some(leaf)) = (metadata.page_index(), of.parquet_column_index()) else {
            return Ok(None);
        };
        let index = index.as_ref();
        let mut selectors = Vec::new();
        for group in left {
            let there = index.column_index(*group, leaf).is_some()
                && index.offset_index(*group, leaf).is_some();
            if !there {
                let rows = metadata.row_group(*group).num_rows() as usize;
                selectors.push(RowSelector::select(rows));
                continue;
            }
            let rows = of.data_page_row_counts(index, metadata.row_groups(), [group])?;
            let stated = Stated {
                low: unzoned(&of.data_page_mins(index, [group])?)?,
                high: unzoned(&of.data_page_maxes(index, [group])?)?,
                nulls: of.data_page_null_counts(index, [group])?,
                rows: rows.ok_or("pages without rows")?.values().to_vec(),
            };
            let may = stated.may_match(self.question, &self.values)?;
            for (may, rows) in may.iter().zip(&stated.rows) {
                self.skipped.pages += usize::from(!may);
                let rows = *rows as usize;
                selectors.push(if *may {
                    RowSelector::select(rows)
                } else {
                    RowSelector::skip(rows)
                });
            }
        }
        Ok(Some(selectors.into()))
    }
}

// --------------------------------------------------------------------------------------- answering

fn matching(
    operator: &str,
    column: &ArrayRef,
    values: &[ArrayRef],
) -> std::result::Result<BooleanArray, ArrowError> {
    match operator {
        "is null" => boolean::is_null(column),
        "is not null" => boolean::is_not_null(column),
        "<" => cmp::lt(column, &Scalar::new(&values[0])),
        ">" => cmp::gt(column, &Scalar::new(&values[0])),
        _ => {
            let mut any = cmp::eq(column, &Scalar::new(&values[0]))?;
            for value in &values[1..] {
                any = boolean::or_kleene(&any, &cmp::eq(column, &Scalar::new(value))?)?;
            }
            Ok(any)
        }
    }
}

fn count(path: &str, question: &Question, skipped: &mut Skipped) -> Result<usize> {
    let reader = open(path)?;
    let schema = reader.schema().clone();
    let (place, field) = schema.column_with_name(&question.column).ok_or("no such column")?;
    let values = question.values_as(&unzoned_type(field.data_type()))?;
    let mut asked = Asked { question, values: values.clone(), skipped };
    let (groups, selection) = asked.choose(&reader)?;
    let of_column = ProjectionMask::roots(reader.parquet_schema(), [place]);
    let first = ProjectionMask::roots(reader.parquet_schema(), [0]);
    let operator = question.operator.clone();
    let predicate = ArrowPredicateFn::new(of_column, move |batch| {
        matching(&operator, &unzoned(batch.column(0))?, &values)
    });
    let mut reader = reader
        .with_row_groups(groups)
        .with_projection(first)
        .with_row_filter(RowFilter::new(vec![Box::new(predicate)]));
    if let Some(selection) = selection {
        reader = reader.with_row_selection(selection);
    }
    let mut rows = 0;
    for batch in reader.build()? {
        rows += batch?.num_rows();
    }
    Ok(rows)
}

pub fn judge(files: &[String]) -> Result<()> {
    let (rows, hash) = read_all(files)?;
    println!("rows {rows} {hash:016x}");
    let mut skipped = Skipped::default();
    for line in std::io::stdin().lock().lines() {
        let question = Question::parse(&line?)?;
        let mut found = 0;
        for path in files {
            found += count(path, &question, &mut skipped)
                .map_err(|error| format!("{path}: {}: {error}", question.column))?;
        }
        println!("{found}");
    }
    println!("skipped {} {} {}", skipped.by_statistics, skipped.by_filter, skipped.pages);
    Ok(())
}
