"""Spark with Iceberg as writer and judge, on the SQLite catalog that lithify opens too. Run by
./dev check spark, which sets LITHIFY_SPARK (tests/services/spark.sh)."""

import os
import pathlib
import sys

import pytest

SPARK = pathlib.Path(os.environ.get("LITHIFY_SPARK", "/nonexistent"))
sys.path[:0] = [str(SPARK / "python"), str(pathlib.Path(__file__).parent),
                str(pathlib.Path(__file__).parents[1] / "e2e")]

import cli  # noqa: E402


def pytest_configure(config):
    if not (SPARK / "python" / "pyspark").is_dir():
        raise pytest.UsageError("LITHIFY_SPARK does not name Spark: run ./dev check spark")
    if not os.access(cli.BINARY, os.X_OK):
        raise pytest.UsageError(f"no binary at {cli.BINARY}: run ./dev build, or set LITHIFY_BIN")


@pytest.fixture(scope="session")
def lake(tmp_path_factory):
    from lake import Lake
    made = Lake(tmp_path_factory.mktemp("spark"), SPARK)
    yield made
    made.stop()
