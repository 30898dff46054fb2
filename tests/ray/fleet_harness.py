"""A fleet with its two files, ticked by the test."""

import json
import time

from conftest import is_alive, wait_until
from lithify_ray import files
from lithify_ray.fleet import Fleet, Placement, settings_for
from lithify_ray.policy import Policy
from ray_cluster import WORKER_BYTES


class Harness:
    def __init__(self, directory, binary, config, min_workers, max_workers, **settings):
        self.workers_file = directory / "workers.json"
        self.queue_file = directory / "queue.json"
        placement = Placement(1, WORKER_BYTES, max_restarts=settings.pop("max_restarts", 5))
        policy = settings.pop("policy", None) or Policy(min_workers, max_workers, 2, up_pause=0.5,
                                                        down_after=2)
        self._make = lambda **more: Fleet(
            "test", settings_for(placement, **{
                "config": config, "binary": binary, "drain_seconds": 10, "probe_seconds": 0.5,
                "probe_timeout": 60, "start_seconds": 60, **settings, **more}), placement, policy,
            workers_file=self.workers_file, queue_file=self.queue_file)
        self.fleet = self._make()

    def restart_supervisor(self, **settings):
        """As after its death: nothing is said to anybody."""
        self.fleet = self._make(**settings)

    def queue(self, waiting, running=0):
        new = self.queue_file.with_suffix(".new")
        new.write_text(json.dumps({"waiting_groups": waiting, "waiting_bytes": waiting << 20,
                                   "running_groups": running}))
        new.rename(self.queue_file)

    def published(self):
        try:
            return dict(files.read_workers(self.workers_file))
        except FileNotFoundError:
            return {}

    def tick_until(self, what, holds, seconds=90):
        def tick():
            self.fleet.tick()
            return holds()
        return wait_until(what, tick, seconds)

    def serving(self, count):
        """Ticks until so many are published and heard, and returns what each of them said."""
        self.tick_until(
            f"{count} workers are published and heard", lambda: count == len(self.published())
            == sum(member.serves(time.monotonic()) for member in self.fleet.members))
        return self.told()

    def told(self):
        told = [member.told for member in self.fleet.members if member.told is not None]
        told = {worker.address: worker for worker in told if worker.address in self.published()}
        assert {worker.address: worker.id for worker in told.values()} == self.published()
        assert all(is_alive(worker.pid) for worker in told.values())
        return told
