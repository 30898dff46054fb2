"""Workers behind a name, as a headless service of Kubernetes has them: what they show is a
certificate of the name, since nobody knows their addresses before."""

import signal
import subprocess

import pytest
from fleet_worker import SECRET, Worker


def certificate(directory, name):
    cert, key = directory / "tls.crt", directory / "tls.key"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
                    "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj", "/CN=fleet",
                    "-addext", f"subjectAltName=DNS:{name}", "-keyout", key, "-out", cert],
                   check=True, capture_output=True)
    key.chmod(0o400)
    return cert, key


@pytest.fixture
def behind_a_name(tmp_path):
    """Starts a worker with a certificate of this name; itself, and a coordinator's arguments."""
    workers = []

    def start(name):
        cert, key = certificate(tmp_path, name)
        worker = Worker(tmp_path / "fleet", "worker.insecure_loopback=false",
                        f"worker.tls_cert={cert}", f"worker.tls_key={key}")
        workers.append(worker)
        port = worker.address.rpartition(":")[2]
        sets = ["fleet.distribution=require", "fleet.discovery=dns", f"fleet.dns=localhost:{port}",
                f"fleet.tls_ca={cert}", f"fleet.secret={SECRET}"]
        return worker, [part for text in sets for part in ("--set", text)]
    yield start
    for worker in workers:
        worker.stop(signal.SIGKILL)


def test_certificate_of_the_name(lake, behind_a_name):
    worker, arguments = behind_a_name("localhost")
    lake.plain()
    rows = lake.rows("t")
    result = lake.run("rewrite-data-files", "t", "--rewrite-all", *arguments).json
    assert result["status"] == "committed" and lake.rows("t") == rows
    assert "of sales.t" in worker.stop()


def test_certificate_of_another_name(lake, behind_a_name):
    """Whoever answers at the name's address is not yet a worker."""
    worker, arguments = behind_a_name("somewhere.example")
    lake.plain()
    before = lake.head("t").snapshot_id
    run = lake.run("rewrite-data-files", "t", "--rewrite-all", *arguments, code=1)
    assert "insufficient_workers" in run.err and lake.head("t").snapshot_id == before
    assert "of sales.t" not in worker.stop()
