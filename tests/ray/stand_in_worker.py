#!/usr/bin/env python3
"""NOT a worker: a stand-in for the launch part of lithify-worker's contract, none of its work.

It reads --config and --set, refuses an empty secret, listens, writes the port file, answers
--probe, and drains on SIGTERM. It speaks no Flight and compacts nothing. Tests of the launch part
run on it and, where it was built, on the real program.

For tests only: `[stand_in]` in its configuration. busy = seconds that a "running group" needs after
SIGTERM; fail = true: it ends before it serves.
"""

import argparse
import os
import re
import select
import signal
import socket
import sys
import time
import tomllib

SECRET_BYTES_MIN = 32


def read_config(options):
    with open(options.config, "rb") as file:
        config = tomllib.load(file)
    for override in options.set:
        key, _, value = override.partition("=")
        section, _, name = key.partition(".")
        config.setdefault(section, {})[name] = value
    return config


def secret_of(worker):
    if "secret_file" in worker:
        with open(worker["secret_file"], encoding="utf-8") as file:
            return file.read().strip()
    return re.sub(r"\$\{(\w+)\}", lambda name: os.environ[name[1]], worker.get("secret", ""))


def probe(address):
    host, _, port = address.rpartition(":")
    try:
        with socket.create_connection((host, int(port)), 2) as connection:
            connection.settimeout(2)
            return 0 if connection.recv(16) == b"serving\n" else 1
    except OSError:
        return 1


def serve(options):
    config = read_config(options)
    if len(secret_of(config["worker"])) < SECRET_BYTES_MIN:
        sys.exit("worker.secret: at least 32 bytes are needed")
    told = config.get("stand_in", {})
    if told.get("fail"):
        sys.exit("stand-in: told to fail")
    host, _, port = config["worker"]["listen"].rpartition(":")
    server = socket.create_server((host, int(port)))
    wake, woken = socket.socketpair()
    woken.setblocking(False)
    signal.set_wakeup_fd(woken.fileno())
    signal.signal(signal.SIGTERM, lambda *_: None)
    bound = f"{host}:{server.getsockname()[1]}"
    with open(options.port_file + ".new", "w", encoding="utf-8") as file:
        file.write(bound + "\n")
    os.rename(options.port_file + ".new", options.port_file)
    print(f"lithify-worker listens on {bound}", flush=True)
    while True:
        ready, _, _ = select.select([server, wake], [], [])
        if wake in ready:
            break
        connection, _ = server.accept()
        connection.sendall(b"serving\n")
        connection.close()
    server.close()
    time.sleep(float(told.get("busy", 0)))
    print("stand-in: drained", flush=True)


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--config")
    options.add_argument("--set", action="append", default=[])
    options.add_argument("--port-file")
    options.add_argument("--probe")
    options.add_argument("--ca")
    options = options.parse_args()
    if options.probe:
        # It speaks no TLS.
        sys.exit(1 if options.ca else probe(options.probe))
    serve(options)


if __name__ == "__main__":
    main()
