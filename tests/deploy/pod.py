"""Runs a container's command about as Kubernetes would: with the root file system read-only, the
pod's mounts and nothing else to write to, as its user and groups, without capabilities, and on a
network that is a loopback device. The machine's /usr stands for the image.

Usage: unshare --mount --net --pid --fork --kill-child python pod.py SPEC.json
SPEC: {"mounts": [{"path", "source" (null: an empty one to write to)}], "user", "group", "fs_group",
"env", "programs": DIR, "libraries": [DIR…], "command", "probe" (null: none)}. Prints one line of
JSON: {"ready": the probe's exit code or null, "writes": what could be written outside the mounts,
"exit": the command's exit code after SIGTERM}.
"""

import ctypes
import json
import os
import pathlib
import signal
import subprocess
import sys
import time

PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS = 24, 38
libc = ctypes.CDLL(None, use_errno=True)


def mount(*arguments):
    subprocess.run(["mount", *map(str, arguments)], check=True, stdin=subprocess.DEVNULL)


def build_root(spec):
    """A root like an image's, on a tmpfs over /mnt."""
    mount("--make-rprivate", "/")
    root = pathlib.Path("/mnt")
    mount("-t", "tmpfs", "-o", "mode=755", "tmpfs", root)
    binds = [("/usr", "/usr"), ("/etc/ssl", "/etc/ssl"), (spec["programs"], "/lithify"),
             *((path, path) for path in spec["libraries"])]
    for source, target in binds:
        place = root / target[1:]
        place.mkdir(parents=True)
        mount("--bind", source, place)
        mount("-o", "remount,bind,ro", place)
    for name in ("bin", "lib", "lib64", "sbin"):
        (root / name).symlink_to(f"usr/{name}")
    for name in ("ld.so.cache", "nsswitch.conf"):
        (root / "etc" / name).write_bytes(pathlib.Path("/etc", name).read_bytes())
    (root / "etc" / "hosts").write_text("127.0.0.1 localhost\n")
    (root / "dev").mkdir()
    for name in ("null", "zero", "urandom", "random"):
        (root / "dev" / name).touch()
        mount("--bind", f"/dev/{name}", root / "dev" / name)
    (root / "proc").mkdir()
    mount("-t", "proc", "proc", root / "proc")
    for one in spec["mounts"]:
        place = root / one["path"][1:]
        place.mkdir(parents=True)
        if one["source"]:
            mount("--bind", one["source"], place)
            mount("-o", "remount,bind,ro", place)
        else:
            mount("-t", "tmpfs", "-o", f"mode=2775,uid=0,gid={spec['fs_group']}", "tmpfs", place)
    mount("-o", "remount,ro", root)
    return root


def restrict(spec, root):
    """In the child, before it becomes the program."""
    os.chroot(root)
    os.chdir("/tmp")
    for capability in range(64):
        libc.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)
    os.setgroups([spec["fs_group"]])
    os.setgid(spec["group"])
    os.setuid(spec["user"])
    libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)


def start(spec, root, command, **more):
    return subprocess.Popen(
        command, env={"PATH": "/lithify:/usr/bin:/bin", **spec["env"]}, stdin=subprocess.DEVNULL,
        preexec_fn=lambda: restrict(spec, root), **more)


def main(path):
    spec = json.loads(pathlib.Path(path).read_text())
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    root = build_root(spec)
    script = """for place in / /usr /etc /lithify /etc/lithify /dev; do
      (: > $place/x) 2>/dev/null && echo $place
    done; exit 0"""
    writes = start(spec, root, ["sh", "-c", script], stdout=subprocess.PIPE,
                   text=True).communicate(timeout=30)[0].split()
    # The program sees no standard output of ours; what it says is for whoever reads the log.
    running = start(spec, root, spec["command"], stdout=2)
    ready = None
    end = time.monotonic() + 60
    while spec["probe"] and ready != 0 and running.poll() is None and time.monotonic() < end:
        ready = start(spec, root, spec["probe"], stdout=2).wait(30)
        time.sleep(0.2)
    if not spec["probe"]:
        time.sleep(1)
    if running.poll() is None:
        running.send_signal(signal.SIGTERM)
    print(json.dumps({"ready": ready, "writes": writes, "exit": running.wait(60)}))


if __name__ == "__main__":
    main(sys.argv[1])
