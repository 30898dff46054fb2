//! Writes Parquet files, and reads and questions them, with the Rust implementation.
//!
//! `rust_judge write SHAPE CODEC FROM TO`  the rows of FROM as a file of that shape
//! `rust_judge judge FILE…`                the rows of all files; questions come on standard input

mod judge;
mod write;

use std::error::Error;
use std::process::ExitCode;

pub type Result<T> = std::result::Result<T, Box<dyn Error>>;

fn run(args: &[String]) -> Result<()> {
    match args {
        [command, shape, codec, from, to] if command == "write" => {
            write::write(shape, codec, from, to)
        }
        [command, files @ ..] if command == "judge" && !files.is_empty() => judge::judge(files),
        _ => Err("usage: rust_judge write SHAPE CODEC FROM TO | judge FILE…".into()),
    }
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match run(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("rust_judge: {error}");
            ExitCode::FAILURE
        }
    }
}
