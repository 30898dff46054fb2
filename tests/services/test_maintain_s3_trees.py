"""lithify-maintain on trees in buckets of a real S3 server, beside one on disk."""

import json
import pathlib
import subprocess

import cli
import judge
import tree as trees
from s3_bucket import S3Tree

PROGRAM = pathlib.Path(cli.BINARY).parent / "lithify-maintain"
CONFIG = """
[maintenance]
mode = "{mode}"
trees = ["{bucket}", "{disk}"]
[maintenance.scheduler]
jitter_secs = 0
[maintenance.budget]
gain_percent_min = 0
"""


def test_a_tree_in_a_bucket(tree, s3_service, tmp_path):
    s3 = S3Tree(s3_service, "maintained")
    disk = trees.Tree(tmp_path / "disk")
    for one in (tree, disk):
        one.fill(files=8, rows=60)
        one.fill(files=5, rows=40, tenant="globex")
    s3.upload(tree)
    config = tmp_path / "maintain.toml"

    def run_once(mode):
        config.write_text(CONFIG.format(mode=mode, bucket=s3.root, disk=disk.root))
        env = cli.environment({**s3.env(), "XDG_STATE_HOME": str(tmp_path / "state")})
        done = subprocess.run([PROGRAM, "run-once", "--json", "--config", config], check=False,
                              capture_output=True, text=True, env=env, timeout=120)
        assert done.returncode == 0, (done.returncode, done.stdout, done.stderr)
        return json.loads(done.stdout)

    before, on_disk = s3.keys(), trees.tree_hash(disk.root)
    report = run_once("advisory")
    assert [one["small_files"] for one in report["tables"]] == [13, 13]
    assert (s3.keys(), trees.tree_hash(disk.root)) == (before, on_disk)
    report = run_once("active")
    assert [(job["table"], job["status"], job["files_in"], job["files_out"])
            for job in report["jobs"]] == [(s3.root, "success", 13, 2),
                                           (str(disk.root), "success", 13, 2)]
    assert [key for key in s3.keys() if "probe" in key] == []
    judge.assert_same_rows(trees.live_of_tree(tree.root),
                           trees.live_of_tree(s3.download(tmp_path / "look")), polars=False)
    assert [job["status"] for job in run_once("active")["jobs"]] == ["skipped", "skipped"]
