"""The scripts beside this file that start and stop services."""

import os
import pathlib
import subprocess


def run_script(name, *args, env=None):
    """What the script prints; its messages go where the test's go."""
    script = pathlib.Path(__file__).parent / name
    done = subprocess.run(["bash", str(script), *map(str, args)], stdout=subprocess.PIPE,
                          text=True, check=True, stdin=subprocess.DEVNULL,
                          env={**os.environ, **(env or {})})
    return done.stdout.strip()
