//! What a reader of the table sees.

use arrow_cast::display::{ArrayFormatter, FormatOptions};
use futures::TryStreamExt;
use iceberg::table::Table;

use crate::Result;

/// One line for each row, sorted.
pub async fn judge(table: &Table) -> Result<()> {
    let options = FormatOptions::new().with_null("\u{0}");
    let mut lines = Vec::new();
    let mut batches = table.scan().select_all().build()?.to_arrow().await?;
    while let Some(batch) = batches.try_next().await? {
        let mut columns = Vec::new();
        for column in batch.columns() {
            columns.push(ArrayFormatter::try_new(column.as_ref(), &options)?);
        }
        for row in 0..batch.num_rows() {
            let mut values = Vec::new();
            for column in &columns {
                values.push(column.value(row).try_to_string()?);
            }
            // Quoted as text, so that a row is a line whatever its strings hold.
            lines.push(format!("{values:?}"));
        }
    }
    lines.sort();
    for line in lines {
        println!("{line}");
    }
    Ok(())
}
