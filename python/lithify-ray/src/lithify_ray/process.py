"""One worker process: started, looked at, drained. No Ray in it."""

import dataclasses
import os
import re
import secrets
import socket
import subprocess
import sys
import tempfile
import threading
import time

# What would put a secret onto a command line, which everybody on the machine can read.
SECRET_KEY = re.compile(r"secret(?!_file$)|password|token(?!_file$)|access_key", re.IGNORECASE)
OWN_KEYS = ("worker.listen", "worker.id", "worker.threads", "worker.memory", "worker.drain")


@dataclasses.dataclass(frozen=True)
class Settings:
    """How a worker is started on whichever node it comes to lie.

    These are arguments of a Ray actor, which the cluster keeps: there is no secret in them. The
    worker reads its secret on its node, from the file or the variable that `config` names.
    """

    config: str  # A path on the node.
    binary: str = "lithify-worker"  # A path on the node, or a name in its PATH.
    overrides: tuple = ()  # KEY=VALUE each, for --set.
    threads: int = 1
    memory_bytes: int = 2**30
    drain_seconds: float = 30.0
    start_seconds: float = 30.0
    probe: str = "worker"  # or "tcp", or "none"
    probe_ca: str = ""  # Paths on the node; without it the probe speaks no TLS.
    probe_cert: str = ""
    probe_key: str = ""
    probe_seconds: float = 10.0
    probe_timeout: float = 10.0
    probe_failures: int = 3
    orphan_seconds: float = 600.0

    def __post_init__(self):
        for override in self.overrides:
            key, equals, _ = override.partition("=")
            if not equals:
                raise ValueError(f'"{override}" is not KEY=VALUE')
            if SECRET_KEY.search(key):
                raise ValueError(f"{key}: a secret on a command line can be read by everybody "
                                 "on the node: name a file or ${NAME} in the configuration")
            if key in OWN_KEYS:
                raise ValueError(f"{key} is set for each worker by its node and resources")
        if self.probe not in ("worker", "tcp", "none"):
            raise ValueError(f'probe "{self.probe}": worker, tcp or none')


class WorkerProcess:
    """Between start() and the end of the process. Calls may come from several threads."""

    def __init__(self, settings, host, name):
        self._settings = settings
        self._host = host
        self.id = f"{name}-{secrets.token_hex(4)}"
        self.address = None
        self.pid = None
        self.draining = False
        self._keeper = None
        self._lock = threading.Lock()

    def start(self):
        """Returns once the worker serves; raises RuntimeError if it does not: then it is gone."""
        with tempfile.TemporaryDirectory(prefix="lithify-worker-") as directory:
            port_file = os.path.join(directory, "port")
            # A session of its own: who signals the actor's group does not mean the keeper.
            self._keeper = subprocess.Popen(
                [sys.executable, "-m", "lithify_ray.keeper", str(self._settings.drain_seconds),
                 *self._command(port_file)],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0, start_new_session=True)
            try:
                self._await_start(port_file)
            except BaseException:
                self.kill()
                raise

    def _command(self, port_file):
        settings = self._settings
        host = f"[{self._host}]" if ":" in self._host else self._host
        own = {"worker.listen": f"{host}:0", "worker.id": self.id,
               "worker.threads": settings.threads, "worker.memory": settings.memory_bytes,
               "worker.drain": f"{max(1, round(settings.drain_seconds))}s"}
        sets = [*settings.overrides, *(f"{key}={value}" for key, value in own.items())]
        return [settings.binary, "--config", settings.config, "--port-file", port_file,
                *(part for override in sets for part in ("--set", override))]

    def _await_start(self, port_file):
        where = f"{self._settings.binary} --config {self._settings.config} on {self._host}"
        word, _, rest = self._keeper.stdout.readline().decode().strip().partition(" ")
        if word != "pid":
            raise RuntimeError(f"{where}: cannot be started: {rest or 'its keeper has ended'}")
        self.pid = int(rest)
        end = time.monotonic() + self._settings.start_seconds
        while True:
            self.address = _read_address(port_file)
            if self.address:
                break
            if self._keeper.poll() is not None:
                raise RuntimeError(f"{where}: ended with {self._keeper.returncode} before it "
                                   "served; what it said is in the log of this actor on its node")
            if time.monotonic() > end:
                raise RuntimeError(
                    f"{where}: did not serve within {self._settings.start_seconds:.0f} s")
            time.sleep(0.05)
        # A probe that cannot succeed would end every worker again, for ever.
        while not self.probe():
            if not self.alive or time.monotonic() > end:
                raise RuntimeError(f"{where}: serves at {self.address}, but its probe fails: with "
                                   "TLS it needs probe_ca, and a certificate that is good for "
                                   "this address")
            time.sleep(0.2)

    @property
    def alive(self):
        return self._keeper is not None and self._keeper.poll() is None

    def wait(self, timeout=None):
        """The exit code of the worker, once it has ended; TimeoutExpired if it does not."""
        return self._keeper.wait(timeout)

    def drain(self, seconds=None):
        """Asks the worker to end; does not wait. 0 kills it."""
        self.draining = True
        seconds = self._settings.drain_seconds if seconds is None else seconds
        with self._lock:
            try:
                self._keeper.stdin.write(f"drain {seconds}\n".encode())
            except (BrokenPipeError, ValueError):
                pass  # It has ended already.

    def kill(self, timeout=10):
        """Ends the worker at once, and waits for it."""
        self.drain(0)
        try:
            self._keeper.wait(timeout)
        except subprocess.TimeoutExpired:
            self._keeper.kill()  # The kernel then kills the worker.
            self._keeper.wait(timeout)
        with self._lock:
            self._keeper.stdin.close()
            self._keeper.stdout.close()

    def probe(self):
        """True if it answers."""
        timeout = self._settings.probe_timeout
        if self._settings.probe == "none":
            return self.alive
        if self._settings.probe == "tcp":
            host, _, port = self.address.rpartition(":")
            try:
                socket.create_connection((host.strip("[]"), int(port)), timeout).close()
                return True
            except OSError:
                return False
        settings = self._settings
        tls = [part for name, path in (("--ca", settings.probe_ca), ("--cert", settings.probe_cert),
                                       ("--key", settings.probe_key)) if path
               for part in (name, path)]
        try:
            return subprocess.run([settings.binary, "--probe", self.address, *tls],
                                  stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                  timeout=timeout, check=False).returncode == 0
        except (OSError, subprocess.TimeoutExpired):
            return False


def _read_address(path):
    """HOST:PORT once the file has it."""
    try:
        with open(path, encoding="utf-8") as file:
            line = file.read().strip()
    except FileNotFoundError:
        return None
    return line if re.fullmatch(r"\S+:\d+", line) else None
