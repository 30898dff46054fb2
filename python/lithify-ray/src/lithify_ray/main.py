"""The command line: lithify-ray up, lithify-ray status."""

import argparse
import fcntl
import json
import os
import signal
import sys
import threading

from lithify_ray import __version__
from lithify_ray.policy import Policy
from lithify_ray.values import parse_duration, parse_size

RAY_OPTIONS = {"log_to_driver": False, "logging_level": "warning"}


def parser():
    top = argparse.ArgumentParser(
        prog="lithify-ray", description="Workers of lithify on a Ray cluster.",
        epilog="Nothing secret is passed here: a worker reads its secret on its node, from the "
               "file or the variable that its configuration names.")
    top.add_argument("--version", action="version", version=__version__)
    commands = top.add_subparsers(dest="command", required=True)
    up = commands.add_parser(
        "up", help="keep workers running until told to end, then drain them",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    status = commands.add_parser("status", help="what runs; exit code 0 if all of it serves")
    for command in (up, status):
        command.add_argument("--address", default="auto", help="of the Ray cluster")
        command.add_argument("--fleet", default="lithify", help="name; one for each coordinator")
    status.add_argument("--json", action="store_true", help="one JSON object per worker and line")
    add_up_arguments(up)
    return top


def add_up_arguments(up):
    files = up.add_argument_group("files of the coordinator, on this machine")
    files.add_argument("--workers-file", default="/run/lithify/workers.json",
                       help="fleet.workers_file")
    files.add_argument("--queue-file", default="/run/lithify/queue.json", help="fleet.queue_file")
    files.add_argument("--queue-stale-after", type=parse_duration, default="35s",
                       help="an older queue file is of a coordinator that ended: nothing waits; "
                            "one that has a job writes it every 10 s; 0: never")
    worker = up.add_argument_group("each worker")
    worker.add_argument("--worker-config", required=True,
                        help="its configuration: a path on the nodes")
    worker.add_argument("--binary", default="lithify-worker",
                        help="the program: a path on the nodes")
    worker.add_argument("--set", action="append", default=[], metavar="KEY=VALUE",
                        help="for the worker's configuration; nothing secret")
    worker.add_argument("--cpus", type=float, default=2, help="set aside by Ray, and its threads")
    worker.add_argument("--memory", type=parse_size, default="4GiB", help="likewise")
    worker.add_argument("--resource", action="append", default=[], metavar="NAME=AMOUNT",
                        help="another resource of Ray that its node must have")
    worker.add_argument("--drain", type=parse_duration, default="30s",
                        help="how long it may end what it runs when it is not wanted any more")
    worker.add_argument("--start-timeout", type=parse_duration, default="30s")
    worker.add_argument("--probe", choices=("worker", "tcp", "none"), default="worker",
                        help="by lithify-worker --probe, by connecting, or not at all")
    worker.add_argument("--probe-ca", default="",
                        help="roots of the workers' certificates, a path on the nodes; with TLS")
    worker.add_argument("--probe-cert", default="",
                        help="what the probe shows where workers ask for a certificate; a path")
    worker.add_argument("--probe-key", default="", help="its key; a path")
    worker.add_argument("--probe-interval", type=parse_duration, default="10s")
    worker.add_argument("--max-restarts", type=int, default=5,
                        help="by Ray, before the supervisor makes another one; -1: any number")
    worker.add_argument("--abandoned-after", type=parse_duration, default="10min",
                        help="a worker that no supervisor asks for so long drains itself")
    scale = up.add_argument_group("how many")
    scale.add_argument("--min", type=int, default=1)
    scale.add_argument("--max", type=int, default=4)
    scale.add_argument("--groups-per-worker", type=int, default=2,
                       help="the coordinator's fleet.max_inflight_groups_per_worker")
    scale.add_argument("--bytes-per-worker", type=parse_size, default="0",
                       help="more workers where more bytes wait for each than this; 0: do not look")
    scale.add_argument("--scale-up-pause", type=parse_duration, default="15s")
    scale.add_argument("--scale-down-after", type=parse_duration, default="5min")
    scale.add_argument("--interval", type=parse_duration, default="1s", help="between two looks")
    scale.add_argument("--reserve", action=argparse.BooleanOptionalAction, default=True,
                       help="ask Ray's autoscaler for room for all that are wanted (one "
                            "such request holds per cluster: --no-reserve where others make one)")


def run_up(options):
    policy = Policy(options.min, options.max, options.groups_per_worker, options.bytes_per_worker,
                    up_pause=options.scale_up_pause, down_after=options.scale_down_after)
    import ray

    from lithify_ray.fleet import Fleet, Placement, settings_for
    resources = []
    for text in options.resource:
        name, _, amount = text.partition("=")
        resources.append((name, float(amount or "1")))
    placement = Placement(options.cpus, options.memory, tuple(resources), options.max_restarts)
    settings = settings_for(
        placement, config=options.worker_config, binary=options.binary,
        overrides=tuple(options.set),
        drain_seconds=options.drain, start_seconds=options.start_timeout, probe=options.probe,
        probe_ca=options.probe_ca, probe_cert=options.probe_cert, probe_key=options.probe_key,
        probe_seconds=options.probe_interval,
        orphan_seconds=options.abandoned_after)
    os.makedirs(os.path.dirname(os.path.abspath(options.workers_file)), exist_ok=True)
    # Two that write one file would take each other's workers out of it.
    with open(options.workers_file + ".lock", "w", encoding="utf-8") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ValueError(f"{options.workers_file}: another lithify-ray keeps it") from None
        stop = threading.Event()
        ray.init(address=options.address, **RAY_OPTIONS)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: stop.set())
        try:
            fleet = Fleet(options.fleet, settings, placement, policy,
                          workers_file=options.workers_file, queue_file=options.queue_file,
                          stale_after=options.queue_stale_after, reserve=options.reserve)
            while not stop.is_set():
                fleet.tick()
                stop.wait(options.interval)
            fleet.close()
        finally:
            ray.shutdown()
    return 0


def run_status(options):
    import ray

    from lithify_ray.fleet import fleet_members
    ray.init(address=options.address, **RAY_OPTIONS)
    try:
        rows = [look(ray, name, handle) for name, handle in fleet_members(options.fleet)]
    finally:
        ray.shutdown()
    if options.json:
        for row in rows:
            print(json.dumps(row))
    else:
        columns = ("name", "state", "address", "id", "node", "pid", "why")
        table = [[column.upper() for column in columns],
                 *[[str(row.get(column, "")) for column in columns] for row in rows]]
        widths = [max(map(len, column)) for column in zip(*table)]
        for line in table:
            print("  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip())
    return 0 if rows and all(row["state"] == "serving" for row in rows) else 1


def look(ray, name, handle):
    from ray.exceptions import GetTimeoutError, RayError
    try:
        told = ray.get(handle.look.remote(), timeout=5)
    except GetTimeoutError:
        return {"name": name, "state": "starting", "why": "no answer yet: no room, or it starts"}
    except RayError as error:
        return {"name": name, "state": "failed", "why": str(error).strip().splitlines()[-1]}
    return {"name": name, "state": told.state, "address": told.address, "id": told.id,
            "node": told.node, "pid": told.pid, "actor_pid": told.actor_pid,
            "started_at": told.started_at}


def main(arguments=None):
    options = parser().parse_args(arguments)
    try:
        return run_up(options) if options.command == "up" else run_status(options)
    except ConnectionError as error:
        print(f"lithify-ray: no Ray cluster at {options.address}: {error}", file=sys.stderr)
        return 1
    except (ValueError, OSError) as error:
        print(f"lithify-ray: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
