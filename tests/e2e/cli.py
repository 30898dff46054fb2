"""Runs the binary under test and reads its reports. The one place that knows the command line's
shape, so that a test says what it wants and not how to ask."""

import json
import os
import pathlib
import signal
import subprocess

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
BINARY = os.environ.get("LITHIFY_BIN", str(REPOSITORY / "build" / "bin" / "lithify"))

OK, PARTITION_FAILED, USAGE, MISMATCH, UNREADABLE, INTERRUPTED = 0, 1, 2, 3, 4, 130

# Thresholds scaled down a thousand times, so that a test of kilobytes behaves like a tree of
# gigabytes: band 256 KiB to 2 MiB, target 512 KiB, small below 128 KiB. Outputs are rolled between
# row groups, so those are scaled, too.
SCALED = ("--set", "compaction.small_file_bytes=128KiB",
          "--set", "compaction.target_file_bytes=512KiB",
          "--set", "compaction.file_bytes_min=256KiB",
          "--set", "compaction.file_bytes_max=2MiB",
          "--set", "output.row_group_bytes=128KiB", "--set", "output.page_bytes=32KiB")


class Disk:
    """Where the binary finds the files that a test writes to `tmp_path`: there.
    tests/services/over_s3.py knows another place."""

    env = {}  # Of the binary.
    unfinished = ".tmp"  # What a table's new data file is named until it is finished.
    catalog_properties = {}  # Of pyiceberg's catalogs.

    def arguments(self, _command, args):
        """What the binary is called with for these."""
        return args

    def text(self, _command, text):
        """What it says, as if it had been on disk."""
        return text

    def location(self, path):
        """Of a file in an Iceberg table."""
        return f"file://{path}"

    def path(self, location):
        """Of the file that a location in an Iceberg table names."""
        return location.removeprefix("file://")


place = Disk()


class Run:
    """A finished call."""

    def __init__(self, command, process):
        self.code = process.returncode
        self.out = place.text(command, process.stdout)
        self.err = place.text(command, process.stderr)

    @property
    def text(self):
        return self.out + self.err

    @property
    def json(self):
        return json.loads(self.out)


def environment(extra=None):
    env = {key: value for key, value in os.environ.items()
           if not key.startswith("LITHIFY_") or key == "LITHIFY_CACHE"}
    env.update(place.env)
    env.update(extra or {})
    return env


def command_line(command, *args):
    return [BINARY, command, *place.arguments(command, [str(arg) for arg in args])]


def run(command, *args, code=0, env=None, timeout=300, cwd=None):
    """Runs to the end; fails the test unless the exit code is `code` (None: any)."""
    process = subprocess.run(command_line(command, *args), capture_output=True, text=True,
                             env=environment(env), timeout=timeout, stdin=subprocess.DEVNULL,
                             cwd=cwd, check=False)
    if code is not None:
        assert process.returncode == code, (
            f"{command} {args}: exit {process.returncode}, expected {code}\n"
            f"{process.stdout}\n{process.stderr}")
    return Run(command, process)


def start(command, *args, env=None):
    """Starts in a session of its own; the caller waits for it."""
    return subprocess.Popen(command_line(command, *args), stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True, env=environment(env),
                            stdin=subprocess.DEVNULL, start_new_session=True)


def kill_and_wait(process, how=signal.SIGKILL):
    process.send_signal(how)
    process.communicate(timeout=60)
    return process.returncode


def partitions(report):
    """Partition reports by key prefix, from the JSON of compact (also --dry-run) or status."""
    return {item["partition"].rstrip("/"): item for item in report["partitions"]}
