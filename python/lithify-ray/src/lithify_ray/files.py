"""The two files between this package and the coordinator: addresses to it, its queue from it."""

import datetime
import json
import os
import tempfile
import time

from lithify_ray.policy import Queue

_AHEAD_SECONDS = 60  # That a clock may have been set back by.


def write_workers(path, workers):
    """Puts `workers`, a list of (address, id), into the file that the coordinator reads.

    By renaming a complete file: who reads sees the old list or the new one.
    """
    text = json.dumps({"version": 1, "workers": [{"address": address, "id": worker_id}
                                                 for address, worker_id in sorted(workers)]})
    directory = os.path.dirname(os.path.abspath(path))
    handle, temporary = tempfile.mkstemp(prefix=".workers-", dir=directory)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text + "\n")
            file.flush()
            os.fsync(file.fileno())
        # The coordinator may run as another user; there is nothing secret in it.
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def read_workers(path):
    """The list of (address, id) in the file."""
    with open(path, encoding="utf-8") as file:
        return [(worker["address"], worker["id"]) for worker in json.load(file)["workers"]]


def read_queue(path, stale_after, wall=time.time):
    """(queue, remark): what the coordinator says, and what is odd about it, or "".

    No file: no coordinator has a job, nothing waits. One that was not written for `stale_after`
    seconds (0: however old): likewise, since a coordinator that has a job writes it every 10
    seconds, so that whoever wrote this has ended. One that cannot be understood: (None, why).
    """
    try:
        with open(path, encoding="utf-8") as file:
            written = os.fstat(file.fileno()).st_mtime
            told = json.load(file)
        queue = Queue(*(_count(told, key)
                        for key in ("waiting_groups", "waiting_bytes", "running_groups")))
        # What it says itself survives being copied.
        written = _count(told, "written_at_ms") / 1000 or written
    except FileNotFoundError:
        return Queue(), f"{path}: not there: nothing waits"
    except (OSError, ValueError) as error:
        return None, f"{path}: cannot be read, the number of workers stays: {error}"
    if stale_after and wall() - written > stale_after:
        when = datetime.datetime.fromtimestamp(written, datetime.UTC)
        return Queue(), (f"{path}: of {when:%Y-%m-%dT%H:%M:%SZ}, more than {stale_after:g} s ago: "
                         "its coordinator has ended: nothing waits")
    if written - wall() > max(stale_after, _AHEAD_SECONDS):
        return Queue(), f"{path}: of a time to come: not believed: nothing waits"
    return queue, ""


def _count(told, key):
    value = told.get(key, 0) if isinstance(told, dict) else None
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ValueError(f"{key} is not a number from 0 on")
    return value
