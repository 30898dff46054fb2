"""lithifyd with both halves at work, before an identity provider (Keycloak) and a catalog that asks
a policy about every request (rustberg): whatever comes to the serving half, nothing is sent with
the principal's token because of it. The other half sends requests with that token by itself: it
has nothing to do while the serving half is attacked, or each of its requests is accounted for."""

import collections
import json
import sys
import urllib.parse

import cli
import pyarrow.flight as flight
import pytest
import red_team
from maintaining import asked, make, seen, until  # noqa: F401  Fixtures.
from red_team import VARIABLE, RedTeam

sys.path.insert(0, str(cli.REPOSITORY / "tests" / "e2e"))

import server as servers  # noqa: E402
from flight_sql import length  # noqa: E402

SLOW_READ = str(cli.REPOSITORY / "build" / "tests" / "slow_read.so")
CLOCK_AHEAD = str(cli.REPOSITORY / "build" / "tests" / "clock_ahead.so")
NEVER = 'schedule = "0 0 1 1 *"\n'
QUIET = NEVER + "tick_secs = 86400\n"  # One tick, at the start.
BUSY = NEVER + "tick_secs = 3\non_change = true\nmin_interval_secs = 0\n"
# Everything that is tried, also with the secret that it should not have.
AUTH = {**red_team.AUTH, **red_team.WITH_SECRET}


class Daemon(servers.Server):
    """`lake`: a Maintained, in whose gateways everything is seen."""

    def __init__(self, directory, lake, config, **more):
        self.lake = lake
        super().__init__(directory, config, program=servers.DAEMON,
                         env={VARIABLE: lake.secret, **more})

    def ticks(self):
        """How many have ended."""
        for path in self.directory.rglob("*.status.json"):
            return sum(one["value"] for one in json.loads(path.read_text())["metrics"]
                       if one["name"] == "lithify.maintenance.ticks")
        return 0

    def wait_for_ticks(self, more=1):
        end = self.ticks() + more
        until(lambda: self.ticks() >= end, process=self.process)

    def written(self):
        """All that it wrote, but for its tables."""
        return [path.read_text() for path in self.directory.rglob("*")
                if path.is_file() and path != self.config]


@pytest.fixture
def lake(make):
    """`t` is opted in, `u` is not."""
    lake = make()
    for name in ("t", "u"):
        lake.plain(name, files=6)
    lake.opt_in()
    return lake


@pytest.fixture
def start(lake, tmp_path):
    """start(lines of [auth], lines of the scheduler) -> Daemon"""
    running = []

    def one(auth, scheduler, **more):
        config = red_team.both_halves(
            lake, auth, lake.asked.uri + lake.identities.token_path(), scheduler=scheduler)
        running.append(Daemon(tmp_path / f"daemon{len(running)}", lake, config, **more))
        return running[-1]

    yield one
    for daemon in running:
        daemon.stop(code=None)


def of_principal(calls):
    return [one for one in calls if one.who == "maintainer"]


def forms(calls):
    return [dict(urllib.parse.parse_qsl(one.body.decode())) for one in calls]


@pytest.mark.parametrize("auth", AUTH)
def test_nothing_is_sent_as_the_principal(lake, start, auth):
    """R001-R005: while the other half has nothing to do, its token is not used, and none is got."""
    lines = AUTH[auth]
    before = {name: (lake.state(name), lake.rows(name)) for name in ("t", "u")}
    alice = lake.identities.of_alice()
    known = red_team.takes_tokens(lines)
    daemon = start(lines, QUIET)
    until(lambda: daemon.ticks() == 1, process=daemon.process)
    # The record can show it, in this process: the tick has looked at the tables with its token.
    assert of_principal(lake.seen.calls)
    assert forms(lake.asked.calls)[0]["client_id"] == "maintainer"
    since, asked_since = len(lake.seen.calls), len(lake.asked.calls)

    team = RedTeam(daemon, lake, alice)
    codes = team.everything(known)
    assert daemon.ticks() == 1
    calls, asked = lake.seen.calls[since:], lake.asked.calls[asked_since:]
    assert of_principal(calls) == []
    assert {one.who for one in calls} == ({"alice"} if known else set())
    assert all(form["grant_type"] != "client_credentials" for form in forms(asked))
    assert all(one.status >= 400 for one in asked)
    assert bool(asked) == (auth != "bearer")
    if auth not in red_team.WITH_SECRET:
        assert not [one for one in asked if lake.secret in one.body.decode() + str(one.headers)]
    if known:
        assert codes["SHOW JOBS"] == 0 and codes["CALL system.rewrite_data_files"] == 1
    for name in ("t", "u"):
        assert (lake.state(name), lake.rows(name)) == before[name]
    daemon.stop()
    team.check_said(*daemon.written())
    # And with something to do the same process works as the principal.
    lake.seen.calls.clear()
    daemon = start(lines, BUSY)
    until(lambda: len(lake.data_entries("t")) == 1, process=daemon.process)
    assert [one.who for one in lake.seen.sent_commits if one.path.endswith("/tables/t")
            and b"add-snapshot" in one.body] == ["maintainer"]
    assert len(lake.data_entries("u")) == 6


def by_token(calls):
    """What was asked with each of the principal's tokens, each as a sorted list; a job or a look
    has one of its own."""
    tokens = collections.defaultdict(list)
    for one in of_principal(calls):
        tokens[one.headers["Authorization"]].append((one.method, one.path))
    return [tuple(sorted(asked)) for asked in tokens.values()]


def test_every_request_as_the_principal_is_of_a_tick(lake, start):
    """While the other half ticks every three seconds: what is sent with its tokens is, token by
    token, what a tick sends when nobody calls, and there are as many tokens as ticks ask for."""
    daemon = start(red_team.AUTH["bearer"], BUSY)
    until(lambda: len(lake.data_entries("t")) == 1, process=daemon.process)
    (commit,) = [one for one in lake.seen.sent_commits if one.path.endswith("/tables/t")
                 and b"add-snapshot" in one.body]
    assert commit.who == "maintainer"
    job = lake.head("t").summary["sqe.maintenance.job-id"]
    daemon.wait_for_ticks(2)  # The last one wrote the log; from the next on they are alike.

    def window(act):
        """What is sent by all ticks from now on that have begun before `act` ended."""
        daemon.wait_for_ticks()
        first, since, asked_since = daemon.ticks(), len(lake.seen.calls), len(lake.asked.calls)
        act()
        daemon.wait_for_ticks()
        ticks = daemon.ticks() - first
        kinds = collections.Counter(by_token(lake.seen.calls[since:]))
        return ticks, kinds, forms(lake.asked.calls[asked_since:])

    ticks, alone, tokens = window(lambda: daemon.wait_for_ticks(2))
    assert ticks >= 3 and set(alone.values()) == {ticks}, alone
    assert len(tokens) == ticks * len(alone)

    team = RedTeam(daemon, lake, lake.identities.of_alice(), job=job)
    team_u = RedTeam(daemon, lake, team.token, name="u", job=job)
    before = lake.state("t"), lake.state("u")

    def attack():
        team.everything()
        team_u.say_statements()

    ticks, attacked, tokens = window(attack)
    assert ticks >= 2
    assert attacked == collections.Counter({kind: ticks for kind in alone})
    assert len(tokens) == ticks * len(alone)
    assert {form["grant_type"] for form in tokens} == {"client_credentials"}
    assert {form["client_id"] for form in tokens} == {"maintainer"}
    assert (lake.state("t"), lake.state("u")) == before
    # One request more would have been seen: the next job is.
    lake.append("t", *([{"id": n, "region": "eu", "note": None}] for n in range(100, 106)))
    until(lambda: len(lake.data_entries("t")) == 1, process=daemon.process)
    daemon.stop()
    team.check_said(*team_u.said, *daemon.written())


def test_run_maintenance_is_the_callers(lake, start):
    """R005, R065: CALL system.run_maintenance and what it does are requests of whoever calls, and
    what it tells while it works is the caller's own: alice is refused by the catalog, the owner is
    not."""
    # So many that merging them pays, where nobody has written to it for a day.
    data = lake.load("t").scan().to_arrow()
    with lake.load("t").transaction() as change:
        for _ in range(150):
            change.append(data)
    daemon = start(red_team.AUTH["bearer"], QUIET, LD_PRELOAD=f"{SLOW_READ}:{CLOCK_AHEAD}",
                   LITHIFY_SLOW_READ_MS="30", CLOCK_AHEAD_SECONDS="86400")
    until(lambda: daemon.ticks() == 1, process=daemon.process)
    alice, owner = (lake.identities.of_person(name) for name in ("alice", "owner"))
    since, rows = len(lake.seen.calls), lake.rows("t")
    call = f"CALL system.run_maintenance(table => '{'.'.join([*lake.namespace, 't'])}')"
    row = daemon.row(call, token=alice)
    assert row["status"] == "failed", row["reason"]
    assert "Not permitted to update table" in row["reason"]
    assert {one.who for one in lake.seen.calls[since:]} == {"alice"}
    assert len(lake.data_entries("t")) == 156

    since = len(lake.seen.calls)
    options = flight.FlightCallOptions(
        headers=[(b"authorization", f"Bearer {owner}".encode())], timeout=120)
    frames = []
    with flight.connect(daemon.url) as client:
        url = b"type.googleapis.com/arrow.flight.protocol.sql.CommandStatementQuery"
        query = length(1, url) + length(2, length(1, call.encode()))
        info = client.get_flight_info(flight.FlightDescriptor.for_command(query), options)
        reader = client.do_get(info.endpoints[0].ticket, options)
        results = []
        try:
            while True:
                chunk = reader.read_chunk()
                if chunk.app_metadata is not None:
                    frames.append(chunk.app_metadata.to_pybytes().decode())
                results += chunk.data.to_pylist()
        except StopIteration:
            pass
    (row,) = results
    assert (row["status"], row["files_rewritten"]) == ("committed", 156)
    assert frames and all("job_id" in json.loads(frame) for frame in frames)
    assert {one.who for one in lake.seen.calls[since:]} == {"owner"}
    assert lake.rows("t") == rows and len(lake.data_entries("t")) == 1
    # Whose it was is told so: the principal has no part in it.
    assert lake.head("t").summary["sqe.maintenance.principal"] == "owner"
    assert len(daemon.rows("SHOW JOBS", token=owner)) == 1
    assert daemon.ticks() == 1
    daemon.stop()
    keys = red_team.keys_of(lake)
    assert len(keys) > 1
    for words in (*frames, str(results), *daemon.written()):
        assert not [key for key in keys if key in words]
