"""Fixtures of the end-to-end tests: the real binary, real trees on disk, independent judges."""

import os
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))

import cli  # noqa: E402
import iceberg_lake  # noqa: E402
import tree as trees  # noqa: E402


def pytest_configure(config):
    config.addinivalue_line("markers", "local_disk(why): about the disk of this machine; does not "
                            "run where files are elsewhere")
    if not os.access(cli.BINARY, os.X_OK):
        raise pytest.UsageError(f"no binary at {cli.BINARY}: run ./dev build, or set LITHIFY_BIN")


@pytest.fixture
def tree(tmp_path):
    """An empty tree with the layout of the preset `ourios`, in its own directory."""
    return trees.Tree(tmp_path / "lake")


@pytest.fixture
def lithify(tree):
    """Runs the binary on `tree`: lithify("compact", "--jobs", "1", code=0)."""

    def run(command, *args, code=0, **kwargs):
        return cli.run(command, tree.root, *args, code=code, **kwargs)

    return run


@pytest.fixture
def lake(tmp_path):
    """An empty Iceberg warehouse with its SQLite catalog."""
    return iceberg_lake.Lake(tmp_path / "warehouse")
