"""The audit log as a file: signed and verified; judged by openssl."""

import json
import pathlib
import subprocess

import cli
import pytest
import tree as trees

pytestmark = pytest.mark.local_disk("audit logs in files")


def openssl(*args, code=0):
    done = subprocess.run(["openssl", *map(str, args)], capture_output=True, text=True, timeout=60,
                          stdin=subprocess.DEVNULL, check=False)
    assert done.returncode == code, done.stderr
    return done.stdout


class Keys:
    def __init__(self, directory):
        self.secret = directory / "signing.pem"
        self.public = directory / "public.pem"
        openssl("genpkey", "-algorithm", "ed25519", "-out", self.secret)
        openssl("pkey", "-in", self.secret, "-pubout", "-out", self.public)


@pytest.fixture
def keys(tmp_path):
    return Keys(tmp_path)


@pytest.fixture
def log(tree, lithify, keys):
    """Of a tree that was compacted three times, by three processes."""
    path = tree.root / "_lithify" / "audit.jsonl"
    for _ in range(3):
        tree.fill(files=6, rows=2000)
        lithify("compact", *cli.SCALED, "--set", f"audit_log.signing_key={keys.secret}")
    return path


def verify(*args, code=cli.OK):
    return cli.run("audit", "verify", *args, code=code)


def lines_of(path):
    return path.read_text("utf-8").splitlines(keepends=True)


def test_a_sound_log(log, keys, tree, lithify):
    report = verify(log, "--public-key", keys.public, "--json").json
    assert report["ok"] and report["findings"] == [] and report["notes"] == []
    assert report["records"] == report["last_seq"] + 1 == report["signed_through"] + 1
    assert report["records"] == len(lithify("audit", "--json").json["records"])
    assert verify(tree.root, "--public-key", keys.public, "--json").json == report
    assert verify("--set", f"audit_log.path={log}", "--json").json["records"] == report["records"]
    assert verify(log, "--public-key", keys.public).out.endswith("whole\n")
    assert verify(log, "--quiet").out == ""


def test_openssl_agrees_on_the_checkpoints(log, keys, tmp_path):
    """docs/FORMATS.md says what is signed: somebody without lithify can check it."""
    by_seq = {json.loads(line)["integrity"]["seq"]: json.loads(line) for line in lines_of(log)}
    marks = [json.loads(line) for line in lines_of(pathlib.Path(f"{log}.checkpoints"))]
    assert len(marks) == 3  # One for each process.
    for mark in marks:
        record = by_seq[mark["seq"]]
        assert (mark["hash"], mark["time"]) == (record["integrity"]["hash"], record["time"])
        signed = tmp_path / "signed"
        signature = tmp_path / "signature"
        signed.write_text(
            f"lithify audit checkpoint 1\n{mark['seq']}\n{mark['hash']}\n{mark['time']}\n"
            f"{mark['key_id']}\n", "utf-8")
        signature.write_bytes(bytes.fromhex(mark["signature"]))
        arguments = ("pkeyutl", "-verify", "-pubin", "-inkey", keys.public, "-rawin",
                     "-sigfile", signature, "-in", signed)
        assert "Signature Verified Successfully" in openssl(*arguments)
        signed.write_text(signed.read_text("utf-8").replace(mark["hash"], "0" * 64), "utf-8")
        openssl(*arguments, code=1)


def test_each_kind_of_tampering(log, keys):
    sound = lines_of(log)

    def found(lines):
        log.write_text("".join(lines), "utf-8")
        report = verify(log, "--public-key", keys.public, "--json", code=cli.MISMATCH).json
        assert not report["ok"]
        text = verify(log, "--public-key", keys.public, "--quiet", code=cli.MISMATCH).out
        for finding in report["findings"]:
            assert finding["fault"] in text
        return [(finding["fault"], finding["line"]) for finding in report["findings"]]

    assert len(sound) >= 6
    assert found([sound[0].replace("acme", "evil"), *sound[1:]]) == [("edited", 1)]
    assert found([sound[0], *sound[2:]]) == [("gap", 2)]
    assert found([sound[1], sound[0], *sound[2:]]) == [("gap", 1), ("reordered", 2)]
    assert found(["{}\n", *sound])[0] == ("unreadable", 1)
    assert found(sound[:-1]) == [("cut_tail", 3)]
    assert found(sound[:1])[-1] == ("cut_tail", 3)
    log.write_text("".join(sound), "utf-8")
    verify(log, "--public-key", keys.public)


def test_exit_codes(log, keys, tmp_path):
    assert "no audit log is named" in verify(code=cli.USAGE).err
    assert "there is no audit log" in verify(tmp_path / "none", code=cli.UNREADABLE).err
    assert "no public Ed25519 key" in verify(log, "--public-key", keys.secret, code=cli.USAGE).err
    missing = verify(log, "--checkpoints", tmp_path / "none", code=cli.UNREADABLE)
    assert "cannot open the checkpoints" in missing.err
    cli.run("audit", code=cli.USAGE)


def test_a_signing_key_that_cannot_be_used_stops_before_the_work(tree, lithify, keys):
    tree.fill(files=6, rows=10)
    for key in (keys.public, tree.root / "none.pem"):
        refused = lithify("compact", "--set", f"audit_log.signing_key={key}", code=None)
        assert refused.code in (cli.USAGE, cli.UNREADABLE)
        assert "audit_log.signing_key" in refused.err
    assert not (tree.partition() / "manifest.json").exists()


def test_on_error(tree, lithify):
    """R178: no change without its record, unless that is what was asked for."""
    tree.fill(files=6, rows=10)
    nowhere = ("--set", f"audit_log.path={tree.root}/lithify.toml/log")
    (tree.root / "lithify.toml").write_text("", "utf-8")
    refused = lithify("compact", *nowhere, code=None)
    assert refused.code != cli.OK and "audit" in refused.err
    assert len(trees.live(tree.partition())) == 6
    done = lithify("compact", *nowhere, "--set", "audit_log.on_error=continue", "--json", code=None)
    report = cli.partitions(done.json)[tree.key(tree.partition())]
    assert report["outcome"] == "committed", done.text
    assert len(trees.live(tree.partition())) == 1
    assert "the work goes on without the record (audit_log.on_error)" in done.err
