"""The supervisor: as many actors as are wanted, and their addresses in the coordinator's file.

It is a driver of Ray that runs beside the coordinator. The actors are detached: if it dies, they
and what they run go on, and the next supervisor of the same fleet takes them over. If none comes,
they drain themselves (Settings.orphan_seconds).
"""

import dataclasses
import hashlib
import itertools
import time

import ray
from ray.autoscaler.sdk import request_resources
from ray.exceptions import ActorUnavailableError, GetTimeoutError, RayError

from lithify_ray import files
from lithify_ray.actor import WorkerActor, say
from lithify_ray.keeper import GRACE_SECONDS
from lithify_ray.policy import State, desired_workers
from lithify_ray.process import Settings

NAMESPACE = "lithify-fleet-"
# An actor that has not answered for so long is not offered to the coordinator,
ANSWER_SECONDS = 30.0
# and is started anew after so long.
SILENCE_SECONDS = 180.0
BACK_OFF_SECONDS = (1.0, 60.0)


@dataclasses.dataclass(frozen=True)
class Placement:
    """What Ray has to find on a node for each worker."""

    cpus: float = 1.0
    memory_bytes: int = 2**30
    resources: tuple = ()  # (name, amount) each
    max_restarts: int = 5

    def bundle(self):
        return {"CPU": self.cpus, "memory": self.memory_bytes, **dict(self.resources)}


@dataclasses.dataclass
class Member:
    """One actor, as far as the supervisor knows."""

    name: str
    handle: object
    born: float
    taken_over: bool = False
    question: object = None  # The answer to come.
    asked: float = 0.0
    told: object = None  # The last Description.
    heard: float = 0.0
    draining_since: float | None = None

    def serves(self, now):
        return (self.draining_since is None and self.told is not None
                and self.told.state == "serving" and now - self.heard < ANSWER_SECONDS)


def fleet_members(fleet):
    """(name, handle) of all actors of the fleet."""
    namespace = NAMESPACE + fleet
    found = []
    for entry in ray.util.list_named_actors(all_namespaces=True):
        if entry["namespace"] == namespace:
            try:
                found.append((entry["name"], ray.get_actor(entry["name"], namespace)))
            except ValueError:
                pass  # It ended meanwhile.
    return sorted(found)


class Fleet:
    """tick() is called every second or so, by one thread; close() once."""

    def __init__(self, name, settings, placement, policy, *, workers_file, queue_file,
                 stale_after=35.0, reserve=True, clock=time.monotonic):
        self._name = name
        self._settings = settings
        self._placement = placement
        self._policy = policy
        self._workers_file = workers_file
        self._queue_file = queue_file
        self._stale_after = stale_after
        self._reserve = reserve
        self._clock = clock
        self._digest = hashlib.sha256(repr((settings, placement)).encode()).hexdigest()[:12]
        self._members = {}
        self._published = None
        self._reserved = None
        self._failures = 0
        self._not_before = 0.0
        self._remark = ""
        now = clock()
        for member, handle in fleet_members(name):
            self._members[member] = Member(member, handle, now, taken_over=True)
            say(f"{member} is taken over")
        # The file may list them: it is not written before they were heard, or this time is up.
        self._hold_until = now + (ANSWER_SECONDS if self._members else 0)
        self._state = State(len(self._members))

    @property
    def members(self):
        return list(self._members.values())

    def tick(self):
        now = self._clock()
        self._hear(now)
        queue, remark = files.read_queue(self._queue_file, self._stale_after)
        if remark != self._remark:
            say(remark or f"{self._queue_file}: can be read")
            self._remark = remark
        before = self._state.workers
        wanted, self._state = desired_workers(queue, now, self._state, self._policy)
        if wanted != before:
            say(f"{wanted} workers are wanted instead of {before}: {queue}")
        self._reserve_room(wanted)
        self._replace_outdated(now, wanted)
        self._grow_or_shrink(now, wanted)
        self._publish(now)
        self._ask(now)

    def close(self, timeout=None):
        """All workers are taken from the coordinator's file, drained, and gone."""
        now = self._clock()
        for member in self.members:
            self._drain(member, now)
        self._publish(now)
        if timeout is None:
            timeout = self._settings.drain_seconds + 3 * GRACE_SECONDS + ANSWER_SECONDS
        while self._members and self._clock() - now < timeout:
            time.sleep(0.1)
            self._hear(self._clock())
            self._ask(self._clock())
        for member in self.members:
            self._end(member, f"did not end within {timeout:.0f} s")
        if self._reserve:
            request_resources(bundles=[])

    # What actors say.

    def _hear(self, now):
        for member in self.members:
            if member.question is None:
                continue
            ready, _ = ray.wait([member.question], timeout=0)
            if not ready:
                if member.told is not None and now - member.heard > SILENCE_SECONDS:
                    self._start_anew(member, now)
                continue
            answer, member.question = member.question, None
            try:
                self._take(member, ray.get(answer, timeout=ANSWER_SECONDS), now)
            except ActorUnavailableError:
                # Ray starts it anew, or the network is slow: asked again at the next tick.
                member.told = None
            except GetTimeoutError:
                pass
            except RayError as error:
                self._lose(member, error, now)

    def _take(self, member, told, now):
        known = member.told.id if member.told else None
        if member.draining_since is not None and told.state == "serving" and known != told.id:
            self._end(member, "was to end, and Ray has started it anew")
            return
        if known != told.id:
            say(f"{member.name} serves {told.address} (id {told.id}, node {told.node})")
        member.told, member.heard = told, now
        if now - member.born > BACK_OFF_SECONDS[1]:
            self._failures = 0
        if told.state == "ended":
            self._end(member, "has drained")
        elif told.state == "draining" and member.draining_since is None:
            member.draining_since = now

    def _lose(self, member, error, now):
        """Ray has given the actor up, or it does not do what it should."""
        del self._members[member.name]
        ray.kill(member.handle, no_restart=True)
        if member.draining_since is not None:
            say(f"{member.name} has ended")
            return
        if now >= self._not_before:
            pause = min(BACK_OFF_SECONDS[0] * 2**self._failures, BACK_OFF_SECONDS[1])
            self._failures = min(self._failures + 1, 10)
            self._not_before = now + pause
        why = next(reversed([line for line in str(error).splitlines() if line.strip()]), "")
        say(f"{member.name} is lost, another one in {self._not_before - now:.0f} s: "
            f"{type(error).__name__}: {why}")

    def _start_anew(self, member, now):
        say(f"{member.name} has not answered for {now - member.heard:.0f} s: it is started anew")
        member.question, member.told = None, None
        ray.kill(member.handle, no_restart=False)

    def _ask(self, now):
        for member in self.members:
            if member.question is None:
                member.question, member.asked = member.handle.describe.remote(), now
            if (member.draining_since is not None and now - member.draining_since
                    > self._settings.drain_seconds + GRACE_SECONDS + ANSWER_SECONDS):
                self._end(member, "did not drain in time")

    # How many there are.

    def _active(self):
        return [member for member in self.members if member.draining_since is None]

    def _reserve_room(self, wanted):
        """Tells Ray's autoscaler what the nodes must have room for, until it is told otherwise."""
        if self._reserve and wanted != self._reserved:
            request_resources(bundles=[self._placement.bundle()] * wanted)
            self._reserved = wanted

    def _replace_outdated(self, now, wanted):
        """Workers with other settings are replaced one by one."""
        active = self._active()
        if len(active) < wanted or len(active) < len(self._members):
            return
        if not all(member.serves(now) for member in active):
            return
        for member in active:
            if member.told.fleet_digest != self._digest:
                say(f"{member.name} has other settings: it is replaced")
                self._drain(member, now)
                return

    def _grow_or_shrink(self, now, wanted):
        active = self._active()
        if len(active) < wanted and now >= self._not_before:
            for _ in range(wanted - len(active)):
                self._start(now)
        # Those that do not serve yet go first, then those that leave a node empty soonest.
        on_node = {}
        for member in active:
            node = member.told.node if member.told else None
            on_node[node] = on_node.get(node, 0) + 1
        active.sort(key=lambda member: (
            member.serves(now), on_node[member.told.node if member.told else None], -member.born))
        for member in active[:max(0, len(active) - wanted)]:
            self._drain(member, now)

    def _start(self, now):
        name = next(name for name in map("worker-{}".format, itertools.count())
                    if name not in self._members)
        placement = self._placement
        actor = ray.remote(WorkerActor).options(
            name=name, namespace=NAMESPACE + self._name, lifetime="detached",
            num_cpus=placement.cpus, memory=placement.memory_bytes,
            resources=dict(placement.resources) or None, scheduling_strategy="SPREAD",
            # A worker that is lost is started anew; a call that is lost is not made again.
            max_restarts=placement.max_restarts, max_task_retries=0)
        try:
            handle = actor.remote(self._settings, f"{self._name}-{name}", self._digest)
        except ValueError as error:
            # The name is taken: one that we have just given up is not gone yet.
            say(f"{name} cannot be started yet: {error}")
            return
        self._members[name] = Member(name, handle, now)

    def _drain(self, member, now):
        """Out of the coordinator's file first: then nothing new is sent to it."""
        if member.draining_since is not None:
            return
        member.draining_since = now
        if member.told is None and not member.taken_over:
            self._end(member, "had not served yet")
            return
        self._publish(now)
        say(f"{member.name} is drained")
        member.handle.drain.remote()

    def _end(self, member, why):
        say(f"{member.name} {why}")
        self._members.pop(member.name, None)
        ray.kill(member.handle, no_restart=True)

    def _publish(self, now):
        if now < self._hold_until and any(member.told is None for member in self.members):
            return
        self._hold_until = 0.0
        serving = [(member.told.address, member.told.id) for member in self.members
                   if member.serves(now)]
        if serving != self._published:
            try:
                files.write_workers(self._workers_file, serving)
            except OSError as error:
                say(f"{self._workers_file}: not written, tried again: {error}")
                return
            self._published = serving


def settings_for(placement, **settings):
    """A worker may use what Ray sets aside for it."""
    return Settings(threads=max(1, int(placement.cpus)), memory_bytes=placement.memory_bytes,
                    **settings)
