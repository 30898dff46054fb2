"""Ctrl-C while somebody on the network does not answer: a store, a catalog, a program that gives
credentials. Without it each of these would be waited for a minute and more, and asked again."""

import os
import pathlib
import signal
import socket
import threading
import time

import pytest

import cli

# Far above what it takes (a second), for machines that are busy; far below the shortest time-out.
SOON = 8


class HangingServer:
    """Takes connections on loopback, answers each request with the same bytes, and says no more."""

    def __init__(self, answer=b""):
        self.answer = answer
        self.requests = []
        self.asked = threading.Event()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        self.connections = []
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            self.connections.append(connection)
            threading.Thread(target=self.serve, args=(connection,), daemon=True).start()

    def serve(self, connection):
        head = b""
        while b"\r\n\r\n" not in head:
            some = connection.recv(65536)
            if not some:
                return
            head += some
        self.requests.append(head.split(b"\r\n", 1)[0].decode())
        connection.sendall(self.answer)
        self.asked.set()

    def close(self):
        self.listener.close()
        for connection in self.connections:
            connection.close()


@pytest.fixture
def hanging(request):
    server = HangingServer(getattr(request, "param", b""))
    yield server
    server.close()


def environment(tmp_path, **more):
    """Nobody's own settings of S3, and keys unless there are others."""
    inherited = {name: "" for name in os.environ if name.startswith("AWS_")}
    return {**inherited, "HOME": str(tmp_path), "no_proxy": "127.0.0.1",
            "AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": "secret", **more}


def interrupted(process, how=signal.SIGINT):
    """The exit code and what was said, soon after the signal."""
    process.send_signal(how)
    try:
        _, err = process.communicate(timeout=SOON)
    except Exception:
        process.kill()
        process.communicate(timeout=60)
        raise
    return process.returncode, err


CUT_OFF = [b"", b"HTTP/1.1 200 OK\r\nContent-Len",
           b"HTTP/1.1 206 Partial\r\nContent-Range: bytes 0-999/1000\r\n"
           b"Content-Length: 1000\r\n\r\n[lay"]


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("hanging", CUT_OFF, indirect=True, ids=["nothing", "header", "body"])
def test_a_store_that_hangs(hanging, how, tmp_path):
    process = cli.start("compact", "s3://lake/tree",
                        env=environment(tmp_path, AWS_ENDPOINT_URL_S3=hanging.url))
    assert hanging.asked.wait(30)
    code, err = interrupted(process, how)
    assert code == cli.INTERRUPTED, err
    assert len(hanging.requests) == 1, hanging.requests


@pytest.mark.parametrize("command", ["status", "gc", "verify"])
def test_a_listing_that_hangs(command, hanging, tmp_path):
    """With a configuration at hand, the first thing that is asked for is the tree."""
    config = tmp_path / "lithify.toml"
    config.write_text("")
    process = cli.start(command, "s3://lake/tree", "--config", config,
                        env=environment(tmp_path, AWS_ENDPOINT_URL_S3=hanging.url))
    assert hanging.asked.wait(30)
    code, err = interrupted(process)
    assert code == cli.INTERRUPTED, err


@pytest.mark.parametrize("command", ["rewrite-data-files", "table-health", "expire-snapshots"])
def test_a_catalog_that_hangs(command, hanging, tmp_path):
    process = cli.start(command, "lake.sales.orders", "--catalog-uri", hanging.url,
                        env=environment(tmp_path))
    assert hanging.asked.wait(30)
    assert hanging.requests[0].startswith("GET /v1/config")
    code, err = interrupted(process)
    assert code == cli.INTERRUPTED, err


def test_a_token_that_does_not_come(hanging, tmp_path):
    config = tmp_path / "lithify.toml"
    config.write_text(f'[catalogs.lake]\nuri = "{hanging.url}"\ncredential = "id:secret"\n')
    process = cli.start("rewrite-data-files", "lake.sales.orders", "--config", config,
                        env=environment(tmp_path))
    assert hanging.asked.wait(30)
    assert hanging.requests[0].startswith("POST /v1/oauth/tokens")
    code, err = interrupted(process)
    assert code == cli.INTERRUPTED, err


def test_a_program_of_credentials_that_hangs(hanging, tmp_path):
    started = tmp_path / "started"
    program = tmp_path / "credentials"
    program.write_text(f"#!/bin/sh\necho $$ > {started}.new; mv {started}.new {started}\n"
                       "exec sleep 600\n")
    program.chmod(0o755)
    (tmp_path / ".aws").mkdir()
    (tmp_path / ".aws" / "config").write_text(f"[default]\ncredential_process = {program}\n")
    env = environment(tmp_path, AWS_ENDPOINT_URL_S3=hanging.url)
    env.update(AWS_ACCESS_KEY_ID="", AWS_SECRET_ACCESS_KEY="")
    process = cli.start("compact", "s3://lake/tree", env=env)
    deadline = time.monotonic() + 30
    while not started.exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    code, err = interrupted(process)
    assert code == cli.INTERRUPTED, err
    assert not pathlib.Path(f"/proc/{started.read_text().strip()}").exists()
    assert not hanging.requests
