"""A worker between its actor and its keeper, without Ray: no end of either leaves a worker."""

import dataclasses
import json
import os
import pathlib
import signal
import socket
import stat
import subprocess
import sys
import time
import tomllib

import pytest
from conftest import is_alive, wait_until
from lithify_ray import files
from lithify_ray.policy import Queue
from lithify_ray.process import Settings, WorkerProcess

# Stands for the actor: starts the worker in a thread that ends at once, says who is who, and waits.
# (Of a worker with PR_SET_PDEATHSIG alone, that thread's end would be the worker's.)
ACTOR = """
import json, sys, threading, time
from lithify_ray.process import Settings, WorkerProcess
told = json.loads(sys.argv[1])
worker = WorkerProcess(Settings(**told), "127.0.0.1", "w")
thread = threading.Thread(target=worker.start)
thread.start()
thread.join()
print(json.dumps([worker.address, worker.pid, worker._keeper.pid]), flush=True)
time.sleep(600)
"""


@pytest.fixture
def settings(binary, config):
    return Settings(config=config(), binary=binary, drain_seconds=20, probe_timeout=60)


@pytest.fixture
def worker(settings):
    worker = WorkerProcess(settings, "127.0.0.1", "w")
    worker.start()
    yield worker
    worker.kill()
    assert not is_alive(worker.pid)


@pytest.fixture
def actor(binary, config):
    started = []

    def start(more=""):
        told = {"config": config(more=more), "binary": binary, "drain_seconds": 20}
        process = subprocess.Popen([sys.executable, "-c", ACTOR, json.dumps(told)],
                                   stdout=subprocess.PIPE, text=True)
        started.append(process)
        address, pid, keeper = json.loads(process.stdout.readline())
        return process, address, pid, keeper
    yield start
    for process in started:
        process.kill()
        process.wait()
        process.stdout.close()


def serves(address):
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), 1).close()
        return True
    except OSError:
        return False


def test_serves_and_drains(worker):
    assert worker.address.startswith("127.0.0.1:") and worker.id.startswith("w-")
    assert worker.alive and worker.probe() and serves(worker.address)
    worker.drain()
    assert worker.wait(60) == 0
    assert not worker.alive and not worker.probe() and not serves(worker.address)


def test_tcp_probe(settings, config):
    worker = WorkerProcess(Settings(config=settings.config, binary=settings.binary, probe="tcp"),
                           "127.0.0.1", "w")
    worker.start()
    assert worker.probe()
    worker.kill()
    assert not worker.probe()


def test_tls_on_both_sides(binary, config, tmp_path):
    """With the certificate that it asks for the worker answers its probe, without it does not."""
    if "stand_in" in binary:
        pytest.skip("SKIP: the stand-in speaks no TLS")
    cert, key = tmp_path / "tls.crt", tmp_path / "tls.key"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
                    "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj", "/CN=fleet",
                    "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", cert],
                   check=True, capture_output=True)
    tls = "\n".join(f'{name} = "{path}"' for name, path in (
        ("tls_cert", cert), ("tls_key", key), ("tls_client_ca", cert)))
    settings = Settings(config=config(tls=tls), binary=binary, start_seconds=60,
                        probe_ca=str(cert), probe_cert=str(cert), probe_key=str(key))
    worker = WorkerProcess(settings, "127.0.0.1", "w")
    worker.start()
    assert worker.probe()
    worker.kill()
    settings = dataclasses.replace(settings, probe_cert="", probe_key="", start_seconds=5)
    with pytest.raises(RuntimeError, match="but its probe fails"):
        WorkerProcess(settings, "127.0.0.1", "w").start()


def test_probe_that_cannot_succeed(settings, tmp_path):
    """Said at the start, rather than ending every worker soon after."""
    settings = dataclasses.replace(settings, probe_ca=str(tmp_path / "none"), start_seconds=5)
    worker = WorkerProcess(settings, "127.0.0.1", "w")
    with pytest.raises(RuntimeError, match="but its probe fails"):
        worker.start()
    assert worker.pid and not is_alive(worker.pid)


def test_probe_of_a_worker_that_hangs(worker):
    os.kill(worker.pid, signal.SIGSTOP)
    assert not worker.probe()
    worker.kill()  # A stopped process hears no SIGTERM.
    assert not is_alive(worker.pid)


def test_running_work_may_end(binary, config):
    if "stand_in" not in binary:
        pytest.skip("SKIP: a real worker has no group to run here")
    worker = WorkerProcess(Settings(config=config(more="[stand_in]\nbusy = 1"), binary=binary,
                                    drain_seconds=20), "127.0.0.1", "w")
    worker.start()
    began = time.monotonic()
    worker.drain()
    assert worker.wait(60) == 0 and time.monotonic() - began >= 1


def test_drain_has_an_end(binary, config):
    if "stand_in" not in binary:
        pytest.skip("SKIP: a real worker keeps its drain time itself")
    worker = WorkerProcess(Settings(config=config(more="[stand_in]\nbusy = 600"), binary=binary,
                                    drain_seconds=0.5), "127.0.0.1", "w")
    worker.start()
    worker.drain()
    assert worker.wait(60) == 128 + signal.SIGKILL
    assert not is_alive(worker.pid)


def test_the_thread_that_started_it_may_end(actor):
    _, address, pid, _ = actor()
    time.sleep(0.5)
    assert is_alive(pid) and serves(address)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV])
def test_actor_ends(actor, number):
    process, address, pid, keeper = actor()
    process.send_signal(number)
    process.wait()
    wait_until("the worker ends after its actor", lambda: not is_alive(pid), 30)
    wait_until("the keeper ends after its worker", lambda: not is_alive(keeper), 10)
    wait_until("nobody serves there", lambda: not serves(address), 5)


def test_actor_is_killed_and_work_may_end(actor, binary):
    if "stand_in" not in binary:
        pytest.skip("SKIP: a real worker has no group to run here")
    process, _, pid, _ = actor("[stand_in]\nbusy = 1")
    process.kill()
    process.wait()
    time.sleep(0.3)
    assert is_alive(pid)  # It drains.
    wait_until("the worker has drained", lambda: not is_alive(pid), 30)


def test_keeper_is_killed(actor):
    _, address, pid, keeper = actor()
    os.kill(keeper, signal.SIGKILL)
    wait_until("the kernel kills the worker", lambda: not is_alive(pid), 5)
    # It is dead before its sockets are closed.
    wait_until("nobody serves there", lambda: not serves(address), 5)


def test_worker_is_killed(worker):
    os.kill(worker.pid, signal.SIGKILL)
    assert worker.wait(60) == 128 + signal.SIGKILL and not worker.draining


def test_no_such_program(config):
    settings = Settings(config=config(), binary="/nonexistent/worker")
    worker = WorkerProcess(settings, "127.0.0.1", "w")
    with pytest.raises(RuntimeError, match="/nonexistent/worker --config .* cannot be started"):
        worker.start()


def test_a_secret_that_is_too_short(binary, config):
    worker = WorkerProcess(Settings(config=config(source='secret = "short"'), binary=binary),
                           "127.0.0.1", "w")
    with pytest.raises(RuntimeError, match="before it served"):
        worker.start()
    assert not is_alive(worker.pid)


def test_secret_by_environment(binary, config, secret, monkeypatch):
    monkeypatch.setenv("LITHIFY_FLEET_SECRET", secret)
    worker = WorkerProcess(Settings(config=config(source='secret = "${LITHIFY_FLEET_SECRET}"'),
                                    binary=binary), "127.0.0.1", "w")
    worker.start()
    worker.kill()


@pytest.mark.parametrize("override", ["worker.secret=x", "worker.s3.secret_access_key=x",
                                      "worker.s3.access_key_id=x", "worker.s3.session_token=x"])
def test_no_secret_on_a_command_line(override):
    with pytest.raises(ValueError, match="command line"):
        Settings(config="worker.toml", overrides=(override,))


def test_what_may_be_set():
    Settings(config="worker.toml", overrides=("worker.secret_file=/run/secret",
                                              "worker.local_files=true"))
    with pytest.raises(ValueError, match="for each worker"):
        Settings(config="worker.toml", overrides=("worker.listen=0.0.0.0:1",))
    with pytest.raises(ValueError, match="KEY=VALUE"):
        Settings(config="worker.toml", overrides=("worker.listen",))


def test_the_tested_version_of_ray_is_the_pinned_one():
    root = pathlib.Path(__file__).parents[2]
    project = tomllib.loads((root / "python" / "lithify-ray" / "pyproject.toml").read_text())
    tested, = [line.split()[0] for line in (root / "requirements" / "fleet.txt").read_text(
        ).splitlines() if line.startswith("ray==")]
    assert project["project"]["dependencies"] == [tested]


def test_workers_file(tmp_path):
    path = tmp_path / "workers.json"
    files.write_workers(path, [("10.0.0.4:1", "b"), ("10.0.0.3:2", "a")])
    assert json.loads(path.read_text()) == {"version": 1, "workers": [
        {"address": "10.0.0.3:2", "id": "a"}, {"address": "10.0.0.4:1", "id": "b"}]}
    assert stat.S_IMODE(path.stat().st_mode) == 0o644
    first = path.stat().st_ino
    files.write_workers(path, [])
    assert files.read_workers(path) == [] and path.stat().st_ino != first
    assert os.listdir(tmp_path) == ["workers.json"]


def test_workers_file_that_cannot_be_written(tmp_path):
    (tmp_path / "workers.json").mkdir()
    with pytest.raises(OSError):
        files.write_workers(tmp_path / "workers.json", [])
    assert os.listdir(tmp_path) == ["workers.json"]


def test_queue_file(tmp_path):
    path = tmp_path / "queue.json"
    assert files.read_queue(path, 60) == (Queue(), f"{path}: not there: nothing waits")
    path.write_text('{"waiting_groups": 3, "waiting_bytes": 9, "running_groups": 1, "more": 1}')
    written = path.stat().st_mtime
    assert files.read_queue(path, 60) == (Queue(3, 9, 1), "")
    assert files.read_queue(path, 60, lambda: written + 59) == (Queue(3, 9, 1), "")
    assert files.read_queue(path, 60, lambda: written + 61)[0] == Queue()
    assert files.read_queue(path, 0, lambda: written + 1e9)[0] == Queue(3, 9, 1)


def test_queue_file_that_says_when_it_was_written(tmp_path):
    path = tmp_path / "queue.json"
    at = 1_790_000_000
    path.write_text(f'{{"waiting_groups": 3, "running_groups": 1, "written_at_ms": {at}000}}')
    assert files.read_queue(path, 35, lambda: at + 34) == (Queue(3, 0, 1), "")
    queue, remark = files.read_queue(path, 35, lambda: at + 36)
    assert queue == Queue(), "what died asks for nobody"
    assert remark == (f"{path}: of 2026-09-21T14:13:20Z, more than 35 s ago: its coordinator has "
                      "ended: nothing waits")
    # It does not change from look to look: it is said once.
    assert files.read_queue(path, 35, lambda: at + 99)[1] == remark
    assert files.read_queue(path, 0, lambda: at + 1e9)[0] == Queue(3, 0, 1)
    queue, remark = files.read_queue(path, 35, lambda: at - 61)
    assert queue == Queue() and "a time to come" in remark


@pytest.mark.parametrize("text", ["", "{", "[]", "7", '{"waiting_groups": -1}',
                                  '{"waiting_groups": "3"}', '{"running_groups": true}',
                                  '{"written_at_ms": "now"}'])
def test_queue_file_that_is_none(tmp_path, text):
    path = tmp_path / "queue.json"
    path.write_text(text)
    queue, remark = files.read_queue(path, 60)
    assert queue is None and "the number of workers stays" in remark
