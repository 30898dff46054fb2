"""deploy/Dockerfile is not built by these tests. That it brings the libraries of all programs is
tested."""

import os
import pathlib
import re
import subprocess

import pytest
import yaml
from conftest import CHART, ROOT

BUILT = pathlib.Path(os.environ.get("LITHIFY_BIN", ROOT / "build" / "bin" / "lithify")).parent
# Part of every Debian.
ESSENTIAL = {"libc6", "libgcc-s1"}


def test_libraries_of_the_programs():
    if not BUILT.is_dir():
        pytest.skip("SKIP: nothing is built")
    final = (ROOT / "deploy" / "Dockerfile").read_text().rpartition("\nFROM ")[2]
    installed = set(re.search(r"apt-get install (.*?) &&", final, re.DOTALL)[1].split())
    needed = set()
    for program in BUILT.iterdir():
        if not program.is_file() or not os.access(program, os.X_OK):
            continue
        dynamic = subprocess.run(["readelf", "-d", program], capture_output=True, text=True,
                                 check=True).stdout
        names = re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic)
        places = dict(re.findall(r"(\S+) => (/\S+)", subprocess.run(
            ["ldd", program], capture_output=True, text=True, check=True).stdout))
        for name in names:
            path = os.path.realpath(places.get(name, "/lib64/" + name))
            # dpkg knows it by where it was before /lib became /usr/lib.
            owner = subprocess.run(["dpkg", "-S", path, path.removeprefix("/usr")],
                                   capture_output=True, text=True, check=False
                                   ).stdout.partition(":")[0]
            # What no package owns lies in the cache, from where the image takes it.
            assert owner or "/pyarrow-" in path or "/duckdb-" in path, path
            needed |= {owner} - {""}
    assert len(needed) > 8
    assert needed - ESSENTIAL <= installed


def test_it_runs_as_the_chart_says():
    values = yaml.safe_load((CHART / "values.yaml").read_text())["user"]
    final = (ROOT / "deploy" / "Dockerfile").read_text().rpartition("\nFROM ")[2]
    assert re.findall("^USER (.*)$", final, re.MULTILINE) == [
        f"{values['runAsUser']}:{values['runAsGroup']}"]
