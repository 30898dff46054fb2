"""What is left of the principal's tokens in the memory of the process, once the jobs that used them
have ended (R004)."""

import os
import sys

import cli
import pytest
import red_team
from maintaining import asked, make, seen, until  # noqa: F401  Fixtures.

sys.path.insert(0, str(cli.REPOSITORY / "tests" / "e2e"))

import server as servers  # noqa: E402

SLOW = {"LD_PRELOAD": str(cli.REPOSITORY / "build" / "tests" / "slow_read.so"),
        "LITHIFY_SLOW_READ_MS": "300"}


def tokens_of(lake):
    """Of the principal, in the order in which the catalog got them; while the gateway passes a call
    on, it has the catalog's own key in its place."""
    bearers = (one.headers["Authorization"] for one in lake.seen.calls if one.who == "maintainer")
    return list(dict.fromkeys(bearer.removeprefix("Bearer ") for bearer in bearers
                              if bearer.startswith("Bearer eyJ")))


@pytest.mark.parametrize("program", ["lithify-maintain", "lithifyd"])
def test_no_token_outlives_its_job(make, tmp_path, program):  # noqa: F811
    """Neither whole nor in part: freed blocks may keep their ends. The client's own secret is there
    as long as the process may need it: in the principal, and in the environment that it was given.
    """
    lake = make()
    lake.plain("t", files=6)
    lake.opt_in()
    config = red_team.both_halves(
        lake, red_team.AUTH["bearer"],
        scheduler='schedule = "0 0 1 1 *"\ntick_secs = 86400\non_change = true\n')
    env = {red_team.VARIABLE: lake.secret, **SLOW}
    process = None
    try:
        if program == "lithifyd":
            process = servers.Server(tmp_path / "daemon", config, program=servers.DAEMON,
                                     env=env).process
        else:
            process = lake.start(env=SLOW)
        if not os.access(f"/proc/{process.pid}/mem", os.R_OK):
            pytest.skip("only root may look into the memory of a process that leaves no core file")
        # While the job works its token is found.
        until(lambda: [one for one in lake.seen.sent_commits if one.path.endswith("/tables/t")
                       and one.status], process=process)
        assert servers.occurrences(process.pid, tokens_of(lake)[-1].encode()) > 0
        # The tick has ended once its status is there: the next one is a day away.
        until(lambda: list(tmp_path.rglob("*.status.json")), process=process)
        assert len(lake.data_entries("t")) == 1
        tokens = tokens_of(lake)
        assert len(tokens) >= 4  # Of the look, the log, the job and its commit.
        assert servers.occurrences(process.pid, lake.key_of().encode()) > 0  # It is found,
        assert servers.occurrences(process.pid, lake.secret.encode()) > 0  # also secrets.
        left = {}
        for number, token in enumerate(tokens):
            for part in (token, token.rpartition(".")[2], token[-24:]):
                left[number, len(part)] = servers.occurrences(process.pid, part.encode())
        assert set(left.values()) == {0}, left
    finally:
        if process is not None:
            process.terminate()
            process.wait(timeout=60)
