"""The Rust implementation as writer and judge: its files in all their forms, and others' too, are
compacted, and it reads the same rows and gives the same answers before and after."""

import subprocess

import cli
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
import questions
import tree as trees
import writers
from service_script import run_script

SHAPES = ("default", "version 2", "delta", "delta, version 2", "plain", "small pages",
          "dictionaries given up", "bloom filters", "statistics of chunks", "no statistics",
          "short bounds", "row groups")
CODECS = ("zstd", "snappy", "none", "gzip", "lz4_raw")
FILES, ROWS = 4, 6000


@pytest.fixture(scope="session")
def program():
    return run_script("rust_judge.sh")


@pytest.fixture
def tree(tmp_path):
    return trees.Tree(tmp_path / "lake")


def run(program, *args, questions_asked=""):
    done = subprocess.run([program, *(str(arg) for arg in args)], input=questions_asked, text=True,
                          capture_output=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def as_text(value):
    if pa.types.is_date(value.type) or pa.types.is_floating(value.type):
        return value.cast(pa.string()).as_py()
    if pa.types.is_timestamp(value.type):
        return value.cast(pa.string()).as_py().replace(" ", "T").rstrip("Z")
    return str(value.as_py())


def asked_about(rows):
    """(line for the judge, answer); of columns that text can ask about."""
    asked = []
    for name in rows.column_names:
        column = rows.column(name)
        kind = column.type
        if pa.types.is_nested(kind):
            continue
        odd = pa.types.is_floating(kind) and pc.any(pc.is_nan(column)).as_py()
        for operator, values in questions.questions(name, column):
            # A NaN is larger than all numbers there.
            if values and (pa.types.is_binary(kind) or pa.types.is_fixed_size_binary(kind) or odd
                           or pa.types.is_boolean(kind) or pa.types.is_time(kind)):
                continue
            line = "\t".join([name, operator, *(as_text(value) for value in values)])
            asked.append((line, questions.count_rows(column, operator, values)))
    return asked


def judge(program, paths, asked):
    """(rows and their hash, answers, what was skipped)."""
    first, *answers, skipped = run(program, "judge", *paths,
                                   questions_asked="".join(f"{line}\n" for line, _ in asked))
    return first, [int(answer) for answer in answers], \
        [int(part) for part in skipped.split()[1:]]


def assert_unchanged(program, before, after, rows):
    asked = asked_about(rows)
    expected, was, _ = judge(program, before, asked)
    found, now, skipped = judge(program, after, asked)
    assert found == expected and found.split()[1] == str(rows.num_rows)
    for (line, truth), old, new in zip(asked, was, now, strict=True):
        assert new in (truth, old), line
    return skipped


def compact(tree, codec, *args):
    """One call; returns inputs, outputs and the report of the partition."""
    before = trees.live(tree.partition())
    report = cli.run("compact", tree.root, "--json", "--set", f"output.codec={codec}", *args).json
    after = trees.live(tree.partition())
    assert after and not set(after) & set(before)
    return before, after, report["partitions"][0]


@pytest.mark.parametrize("shape", SHAPES)
def test_files_of_rust(tree, program, tmp_path, shape):
    number = SHAPES.index(shape)
    codec = CODECS[number % len(CODECS)]
    rng = np.random.default_rng(number)
    for i in range(FILES):
        table = writers.make_table(rng, i * ROWS, ROWS, writers.COLUMNS)
        source = tmp_path / f"source{i}.parquet"
        pq.write_table(table, source)
        run(program, "write", shape, codec, source, tree.path())
    before, after, report = compact(tree, codec, "--verify", ("sample", "full")[number % 2])
    # Row groups of 3,000 rows have pages too small to be kept in most columns.
    assert report["tiers"]["splice"] > 0 or shape == "row groups"
    readers = questions.readers_of(before)
    rows = questions.assert_same_rows(before, after, readers)
    questions.assert_same_answers(before, after, rows, readers)
    assert_unchanged(program, before, after, rows)


@pytest.mark.parametrize("writer", writers.WRITERS)
def test_files_of_others(tree, program, writer):
    rng = np.random.default_rng(len(writer))
    columns = [name for name in writers.COLUMNS
               if name not in writers.LACKS[writer] and name not in writers.WIDE]
    for i in range(FILES):
        table = writers.make_table(rng, i * ROWS, ROWS, columns)
        writers.WRITERS[writer](rng, table, tree.path(), "zstd",
                                {"version": "2.6", "write_statistics": True})
    before, after, report = compact(tree, "zstd")
    assert report["tiers"]["splice"] > 0
    rows = questions.read_rows(before)
    assert_unchanged(program, before, after, rows)


def test_pages_and_filters_are_used(tree, program, tmp_path):
    """The judge skips by what lithify wrote: else its answers would prove less."""
    rng = np.random.default_rng(1)
    for i in range(FILES):
        table = writers.make_table(rng, i * ROWS, ROWS, ["rising", "word", "kind", "at"])
        source = tmp_path / f"source{i}.parquet"
        pq.write_table(table, source)
        run(program, "write", "bloom filters", "zstd", source, tree.path())
    before, after, _ = compact(tree, "zstd")
    by_statistics, by_filter, pages = assert_unchanged(
        program, before, after, questions.read_rows(before))
    assert by_statistics > 0 and by_filter > 0 and pages > 0
