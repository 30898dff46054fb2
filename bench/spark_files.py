"""The part of bench/run.py that runs in a process of its own with Spark. `write` makes one file by
parquet-java of each file in a folder; `register` makes an Iceberg table of the files in a folder,
as they are; `rewrite` measures Spark's procedure on it."""

import json
import pathlib
import sys

import iceberg_spark  # Also says where pyspark is.

NAME = "files"
LEVEL = "3"


def write(source, folder, codec):
    from pyspark.sql import SparkSession
    one_each = str(1 << 30)
    spark = (SparkSession.builder.master("local[2]").appName("lithify-bench")
             .config("spark.ui.enabled", "false").config("spark.driver.host", "127.0.0.1")
             .config("spark.driver.bindAddress", "127.0.0.1")
             .config("spark.driver.memory", "2g")
             .config("spark.sql.files.maxPartitionBytes", one_each)
             .config("spark.sql.files.openCostInBytes", one_each)
             # Its default is INT96, which Iceberg and other lake formats do not use.
             .config("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")
             .config("spark.hadoop.parquet.compression.codec.zstd.level", LEVEL)
             .config("spark.sql.parquet.compression.codec", codec).getOrCreate())
    spark.sparkContext.setLogLevel("ERROR")
    names = sorted(path.name for path in pathlib.Path(source).glob("*.parquet"))
    out = pathlib.Path(folder) / "spark"
    spark.read.parquet(source).write.parquet(str(out))
    spark.stop()
    written = sorted(out.glob("*.parquet"))
    if len(written) != len(names):
        sys.exit(f"Spark wrote {len(written)} files of {len(names)}")
    for path, name in zip(written, names):
        path.rename(pathlib.Path(folder) / name)
    for path in out.iterdir():
        path.unlink()
    for path in out.glob(".*"):
        path.unlink()
    out.rmdir()


def register(root, folder, codec):
    from lake import Lake
    lake = Lake(root, iceberg_spark.SPARK)
    first = sorted(pathlib.Path(folder).glob("*.parquet"))[0]
    schema = lake.spark.read.parquet(str(first)).schema
    columns = ", ".join(f"`{field.name}` {field.dataType.simpleString()}" for field in schema)
    codec = {"codec": codec} | ({"level": LEVEL} if codec == "zstd" else {})
    properties = ", ".join(f"'write.parquet.compression-{key}'='{value}'"
                           for key, value in codec.items())
    lake.sql(f"CREATE TABLE lake.sales.{NAME} ({columns}) USING iceberg TBLPROPERTIES "
             f"('format-version'='2', 'write.distribution-mode'='none', {properties})")
    lake.sql(f"CALL lake.system.add_files(table => 'sales.{NAME}', "
             f"source_table => '`parquet`.`{folder}`')")
    lake.stop()


if __name__ == "__main__":
    if sys.argv[1] == "write":
        write(*sys.argv[2:])
    elif sys.argv[1] == "register":
        register(*sys.argv[2:])
    else:
        print(json.dumps(iceberg_spark.rewrite(sys.argv[2], int(sys.argv[3]), NAME)))
