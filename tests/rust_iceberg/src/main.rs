//! Writes and reads Iceberg tables of a SQLite catalog with the Rust implementation.
//!
//! `rust_lake create URI WAREHOUSE TABLE VERSION SCHEMA SPEC [KEY=VALUE…]`  both as JSON
//! `rust_lake append URI WAREHOUSE TABLE FILE…`          the rows of each Parquet file as a snapshot
//! `rust_lake delete-positions URI WAREHOUSE TABLE N…`   these rows of every data file
//! `rust_lake delete-equal URI WAREHOUSE TABLE COLUMN FILE`  rows with the same COLUMN as one of FILE
//! `rust_lake judge URI WAREHOUSE TABLE`                 the rows, sorted, one a line
//! `rust_lake fixtures DIR`                              metadata files for lithify's own tests

mod deletes;
mod fixtures;
mod judge;
mod lake;

use std::error::Error;
use std::process::ExitCode;

use lake::Lake;

pub type Result<T> = std::result::Result<T, Box<dyn Error>>;

async fn run(args: &[&str]) -> Result<()> {
    match args {
        ["create", uri, warehouse, table, version, schema, spec, properties @ ..] => {
            Lake::open(uri, warehouse, table).await?.create(version, schema, spec, properties).await
        }
        ["append", uri, warehouse, table, files @ ..] if !files.is_empty() => {
            Lake::open(uri, warehouse, table).await?.append(files).await
        }
        ["delete-positions", uri, warehouse, table, positions @ ..] if !positions.is_empty() => {
            deletes::positions(&Lake::open(uri, warehouse, table).await?, positions).await
        }
        ["delete-equal", uri, warehouse, table, column, file] => {
            deletes::equal(&Lake::open(uri, warehouse, table).await?, column, file).await
        }
        ["judge", uri, warehouse, table] => {
            judge::judge(&Lake::open(uri, warehouse, table).await?.load().await?).await
        }
        ["fixtures", directory] => fixtures::write(directory).await,
        _ => Err("usage: see main.rs".into()),
    }
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let done = match runtime {
        Ok(runtime) => runtime.block_on(run(&args)),
        Err(error) => Err(error.into()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("rust_lake: {error}");
            ExitCode::FAILURE
        }
    }
}
