"""A lithify-worker process, and what a coordinator says to it: the protocol of docs/FLEET.md, as
this file's own code, so that it is what that page says and not only what both programs agree on."""

import base64
import hashlib
import hmac
import json
import os
import pathlib
import secrets
import signal
import struct
import subprocess
import time
import uuid

import cli
import pyarrow as pa
import pyarrow.flight as flight

PROGRAM = pathlib.Path(cli.BINARY).parent / "lithify-worker"
SECRET = "0123456789abcdef0123456789abcdef"
PATIENCE = 60


class Worker:
    """Listens on a free port of loopback until stop()."""

    def __init__(self, directory, *sets, name="worker", local_files=True, env=None):
        self.directory = directory
        directory.mkdir(parents=True, exist_ok=True)
        self.errors = directory / f"{name}.stderr.txt"
        self.port_file = directory / f"{name}.address"
        self.port_file.unlink(missing_ok=True)
        settings = ["worker.insecure_loopback=true", f"worker.id={name}",
                    f"worker.local_files={'true' if local_files else 'false'}", *sets]
        args = [part for setting in settings for part in ("--set", setting)]
        with self.errors.open("w") as errors:
            self.process = subprocess.Popen(
                [PROGRAM, *args, "--port-file", str(self.port_file)], stdout=subprocess.DEVNULL,
                stderr=errors,
                env={**os.environ, "LITHIFY_WORKER__SECRET": SECRET, **(env or {})})
        deadline = time.monotonic() + PATIENCE
        while not self.port_file.exists():
            assert self.process.poll() is None, self.errors.read_text()
            assert time.monotonic() < deadline, "it does not serve"
            time.sleep(0.01)
        self.address = self.port_file.read_text().strip()

    def stop(self, how=signal.SIGTERM):
        if self.process.poll() is None:
            self.process.send_signal(how)
        self.process.wait(timeout=PATIENCE)
        return self.errors.read_text()


# --- the protocol --------------------------------------------------------------------------------

def seal(label, *fields, secret=SECRET):
    text = b"".join(struct.pack(">Q", len(part)) + part
                    for part in (field if isinstance(field, bytes) else field.encode()
                                 for field in (label, *fields)))
    return hmac.new(secret.encode(), text, hashlib.sha256).hexdigest()


def opened(frame):
    """What stands behind the seal, which is packed where that is shorter."""
    body = frame[64:]
    if body[:1] == b"Z":
        size = int.from_bytes(body[1:5], "big")
        body = pa.decompress(body[5:], size, codec="zstd", asbytes=True)
    return json.loads(body)


class Coordinator:
    """Speaks with one worker."""

    def __init__(self, address, secret=SECRET):
        self.client = flight.connect(f"grpc+tcp://{address}")
        self.secret = secret

    def hello(self):
        nonce = secrets.token_hex(16)
        (answer,) = self.client.do_action(flight.Action("hello", nonce.encode()))
        answer = answer.body.to_pybytes().decode()
        signature, rest = answer[:64], answer[64:]
        now, worker = rest.split(" ", 1)
        assert signature == seal("lithify fleet 1 hello", nonce, now, worker, secret=self.secret)
        return worker, int(now)

    def headers(self, action, body, **changes):
        worker, now = self.hello()
        head = {"worker": worker, "issued-at": str(now), "expires-at": str(now + 60_000),
                "nonce": secrets.token_hex(16), **changes}
        head["signature"] = seal("lithify fleet 1 request", action, head["worker"],
                                 head["issued-at"], head["expires-at"], head["nonce"], body,
                                 secret=self.secret)
        return head

    def send(self, action, body, head):
        options = flight.FlightCallOptions(
            timeout=PATIENCE,
            headers=[(f"x-lithify-{name}".encode(), value.encode())
                     for name, value in head.items()])
        return self.client.do_action(flight.Action(action, body.encode()), options)

    def frames(self, action, message):
        """As they come in; each with its seal checked."""
        body = json.dumps(message)
        head = self.headers(action, body)
        for index, answer in enumerate(self.send(action, body, head)):
            frame = answer.body.to_pybytes()
            assert frame[:64].decode() == seal("lithify fleet 1 frame", head["nonce"], str(index),
                                               frame[64:], secret=self.secret)
            yield opened(frame)

    def last(self, action, message):
        *_, frame = self.frames(action, message)
        return frame

    def adopt(self, attempt):
        return self.last("adopt_outputs", {"protocol": 1, "attempt": attempt, "s3": []})

    def drop(self, attempt):
        return self.last("drop_attempt", {"protocol": 1, "attempt": attempt, "s3": []})


def new_id():
    """A UUIDv7."""
    number = int(time.time() * 1000) << 80 | secrets.randbits(80)
    number = number & ~(0xF << 76) | 0x7 << 76
    return str(uuid.UUID(int=number & ~(0x3 << 62) | 0x2 << 62))


def order(lake, name, paths=None, **changes):
    """For all files of a table, or some."""
    table = lake.load(name)
    entries = sorted(lake.data_entries(name), key=lambda e: (e.sequence_number, e.file.file_path))
    return {"protocol": 1, "job_id": new_id(), "group_id": 7, "attempt": new_id(),
            "table_ident": f"sales.{name}", "metadata_location": table.metadata_location,
            "snapshot_id": table.current_snapshot().snapshot_id,
            "group_file_paths": paths or [e.file.file_path for e in entries], "outputs": 1,
            "target_file_size_bytes": 512 << 20, "min_file_size_bytes": 384 << 20,
            "max_file_size_bytes": 920 << 20, "max_output_partitions": 1000, "verify": "full",
            "memory_bytes": 256 << 20, "s3": [], **changes}


def manifests(done):
    """The Avro files of a result."""
    return [base64.b64decode(of_spec["manifest"]) for of_spec in done["new_data_files_avro"]]
