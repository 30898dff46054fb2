"""What the benchmarks share: running a process and measuring it, and the state of the machine.
`measure.py COMMAND…` runs the command and prints what it used as JSON."""

import json
import os
import pathlib
import platform
import resource
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
BINARY = os.environ.get("LITHIFY_BIN", str(ROOT / "build" / "bin" / "lithify"))
MIB = 1024 * 1024


class Failed(Exception):
    """A contestant ended with an error; the text says which."""


def measure(command):
    """Runs `command` and prints its wall time, CPU time, peak and output as JSON. It does so in a
    small process of its own: a process inherits the peak of the one that it is forked from."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]  # Some tools open all inputs at once.
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    begin = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          stdin=subprocess.DEVNULL) as process:
        out = process.stdout.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    print(json.dumps({"wall": time.perf_counter() - begin, "cpu": usage.ru_utime + usage.ru_stime,
                      "peak": usage.ru_maxrss * 1024, "out": out, "code": process.returncode}))


def spawn(command, env=None, cwd=None):
    """Runs a process to its end; (wall, cpu, peak bytes, output)."""
    done = subprocess.run([sys.executable, "-S", __file__, *command], env=env, cwd=cwd,
                          capture_output=True, text=True, check=True)
    found = json.loads(done.stdout)
    if found["code"] != 0:
        raise Failed(f"{' '.join(command[:4])} …: exit {found['code']}\n{found['out'][-2000:]}")
    return found["wall"], found["cpu"], found["peak"], found["out"]


def work(run):
    """Prints the wall and CPU time of `run` in this process as JSON."""
    before = resource.getrusage(resource.RUSAGE_SELF)
    begin = time.perf_counter()
    run()
    wall = time.perf_counter() - begin
    after = resource.getrusage(resource.RUSAGE_SELF)
    print(json.dumps({"wall": wall, "cpu": after.ru_utime + after.ru_stime
                                           - before.ru_utime - before.ru_stime}))


def medians(samples):
    return [statistics.median(values) for values in zip(*samples)]


def cpu_ticks():
    """(all, stolen) ticks of the machine since its start."""
    with open("/proc/stat", encoding="utf-8") as file:
        ticks = [int(value) for value in file.readline().split()[1:9]]
    return sum(ticks), ticks[7]


def machine():
    model = "unknown"
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        for line in file:
            if line.startswith("model name"):
                model = line.split(":", 1)[1].strip()
                break
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return f"{model}, {os.cpu_count()} cores, {pages / 2**30:.0f} GiB, Linux {platform.release()}"


class Quiet:
    """How quiet the machine was from here to `text()`."""

    def __init__(self):
        self.load = os.getloadavg()[0]
        self.ticks, self.stolen = cpu_ticks()

    def text(self):
        ticks, stolen = cpu_ticks()
        steal = 100 * (stolen - self.stolen) / max(1, ticks - self.ticks)
        return (f"Machine: {machine()}. Load average at the start {self.load:.2f}, at the end "
                f"{os.getloadavg()[0]:.2f}; {steal:.1f} % of the CPU time was stolen by the host.")


if __name__ == "__main__":
    measure(sys.argv[1:])
