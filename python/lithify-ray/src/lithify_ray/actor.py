"""The Ray actor around one worker process."""

import dataclasses
import os
import sys
import threading
import time

import ray

from lithify_ray.process import WorkerProcess


@dataclasses.dataclass(frozen=True)
class Description:
    """What an actor says of its worker."""

    state: str  # "serving", "draining" or "ended"
    address: str
    id: str
    pid: int
    actor_pid: int
    node: str
    started_at: float
    fleet_digest: str


class WorkerActor:
    """Started by Ray on a node with room for it; alive once its worker serves.

    When the worker ends without having been asked to, or does not answer, this process ends as
    well: Ray then starts the actor anew, perhaps on another node. Methods return at once.
    """

    def __init__(self, settings, name, fleet_digest):
        self._settings = settings
        self._digest = fleet_digest
        self._asked_at = time.monotonic()
        self._started_at = time.time()
        self._node = ray.util.get_node_ip_address()
        self._worker = WorkerProcess(settings, self._node, name)
        self._worker.start()
        for work in (self._watch, self._look):
            threading.Thread(target=work, daemon=True).start()

    def describe(self):
        """For the supervisor: that it asks keeps the worker from being taken for abandoned."""
        self._asked_at = time.monotonic()
        return self.look()

    def look(self):
        """For everybody else."""
        worker = self._worker
        state = "ended" if not worker.alive else "draining" if worker.draining else "serving"
        return Description(state, worker.address, worker.id, worker.pid, os.getpid(), self._node,
                           self._started_at, self._digest)

    def drain(self):
        """The worker takes nothing new and ends what it runs, within the settings' drain time."""
        self._worker.drain()

    def _watch(self):
        code = self._worker.wait()
        if self._worker.draining:
            return
        say(f"worker {self._worker.id} ended with {code}")
        # Not exit_actor(): this is to be a failure in Ray's eyes, so that it starts the actor anew.
        os._exit(1)

    def _look(self):
        failures = 0
        while not self._worker.draining:
            time.sleep(self._settings.probe_seconds)
            silent = time.monotonic() - self._asked_at
            if silent > self._settings.orphan_seconds:
                self._end_abandoned(silent)
                return
            failures = 0 if self._worker.probe() else failures + 1
            if failures >= self._settings.probe_failures and not self._worker.draining:
                say(f"worker {self._worker.id} did not answer {failures} times: it is replaced")
                self._worker.kill()
                os._exit(1)

    def _end_abandoned(self, silent):
        say(f"worker {self._worker.id}: no supervisor for {silent:.0f} s: it is drained")
        self._worker.drain()
        self._worker.wait()
        ray.kill(ray.get_runtime_context().current_actor, no_restart=True)


def say(text):
    print(f"lithify-ray: {text}", file=sys.stderr, flush=True)
