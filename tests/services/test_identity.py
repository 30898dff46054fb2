"""Statements as their callers, end to end: users of a real identity provider (Keycloak) at the
server, in front of Iceberg's own REST catalog, with a record of whose token reached it."""

import base64
import json
import time
import urllib.parse
import urllib.request

import adbc_driver_manager
import cli
import pytest
import server as servers
from service_script import run_script

CLOCK_AHEAD = str(cli.REPOSITORY / "build" / "tests" / "clock_ahead.so")
direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class IdentityProvider:
    """Keycloak with the realms of keycloak/."""

    def __init__(self, address):
        self.address = address

    def issuer(self, realm="lithify"):
        return f"{self.address}/realms/{realm}"

    def tokens(self, user="alice", password="wonderland", client="lithify", realm="lithify"):
        form = urllib.parse.urlencode({"grant_type": "password", "username": user,
                                       "password": password, "client_id": client,
                                       "scope": "openid"})
        url = self.issuer(realm) + "/protocol/openid-connect/token"
        with direct.open(url, form.encode(), timeout=60) as answer:
            return json.load(answer)

    def token(self, *args, **kwargs):
        return self.tokens(*args, **kwargs)["access_token"]


@pytest.fixture(scope="session")
def provider(tmp_path_factory):
    directory = tmp_path_factory.mktemp("keycloak")
    provider = IdentityProvider(run_script("keycloak.sh", "start", directory))
    provider.token()  # The first takes a while.
    yield provider
    run_script("keycloak.sh", "stop", directory)


@pytest.fixture
def start(tmp_path, provider, lake):
    """start(lines of [auth], …) -> Server of the lake; all are stopped at the end."""
    running = []

    def start_one(more="", env=None, providers=("oidc_password", "bearer"), client="lithify"):
        running.append(servers.Server(tmp_path / f"server{len(running)}", f"""
[server]
local_files = true
[auth]
providers = {json.dumps(providers)}
issuer = "{provider.issuer()}"
audience = "lake"
client_id = "{client}"
roles_claim = "realm_access.roles"
{more}
[catalogs.lake]
uri = "{lake.uri}"
""", env=env))
        return running[-1]

    yield start_one
    for server in running:
        server.stop(code=None)


def bearers(proxy):
    """The Authorization headers that reached the catalog."""
    return {call.headers.get("Authorization") for call in proxy.calls}


def claims(header):
    part = header.removeprefix("Bearer ").split(".")[1]
    return json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))


def name_of(lake):
    return ".".join(lake.namespace) + ".t"


def rewrite(lake):
    return ("CALL system.rewrite_data_files(table => "
            f"'{name_of(lake)}', min_input_files => 2)")


def test_a_user_with_a_password(lake, proxy, provider, start):
    """R001: whoever logs in, the catalog hears of nobody else, and never of the password."""
    lake.plain(files=6, rows=10)
    rows = lake.rows("t")
    server = start()
    with server.connect(username="alice", password="wonderland") as connection, \
            connection.cursor() as cursor:
        cursor.execute(rewrite(lake))
        result = dict(zip([column[0] for column in cursor.description], cursor.fetchone(),
                          strict=True))
        assert (result["status"], result["files_rewritten"]) == ("committed", 6)
    assert lake.rows("t") == rows
    assert len(proxy.sent_commits) == 1
    heard = bearers(proxy)
    assert None not in heard and heard
    assert {claims(header)["preferred_username"] for header in heard} == {"alice"}
    passed = "".join(str(call.headers) + call.body.decode(errors="replace")
                     for call in proxy.calls)
    assert "wonderland" not in passed and "Basic" not in passed
    server.stop()
    text = server.audit_log.read_text() + server.errors.read_text()
    assert '"alice"' in text and "wonderland" not in text
    assert not any(header.split()[1] in text for header in heard)


def test_a_user_with_a_token(lake, proxy, provider, start):
    lake.plain(files=3)
    server = start()
    token = provider.token("bob", "builder")
    row = server.row(f"CALL system.table_health(table => '{name_of(lake)}')", token=token)
    assert row["live_data_files"] == 3
    assert bearers(proxy) == {f"Bearer {token}"}


def test_whom_the_server_does_not_know_the_catalog_never_hears_of(lake, proxy, provider, start):
    """Forged, tampered, of another realm or audience, no access token at all, expired."""
    lake.plain(files=2)
    server = start()
    good = provider.tokens()
    head, body, signature = good["access_token"].split(".")
    forged = claims(good["access_token"])
    forged["preferred_username"] = "bob"
    other = base64.urlsafe_b64encode(json.dumps(forged).encode()).decode().rstrip("=")
    none = base64.urlsafe_b64encode(b'{"alg":"none"}').decode().rstrip("=")
    statement = f"CALL system.table_health(table => '{name_of(lake)}')"
    for token, why in [
            (f"{head}.{other}.{signature}", "signature is not made"),
            (f"{none}.{other}.{signature}", "is not allowed"),
            (f"{none}.{other}.", "not a signed JWT"),
            (provider.token(realm="other"), "does not publish"),
            (provider.token(client="console"), "another audience"),
            (good["id_token"], "another audience"),
            (good["refresh_token"], "is not allowed"),
            ("opaque", "not a signed JWT")]:
        message = server.error(statement, token=token)
        assert why in message, message
        assert token not in message
    assert "no credentials" in server.error(statement)
    with pytest.raises(adbc_driver_manager.Error) as refused:
        with server.connect(username="alice", password="builder"):
            pass
    assert "Invalid user credentials" in str(refused.value)
    assert refused.value.status_code == adbc_driver_manager.AdbcStatusCode.UNAUTHENTICATED
    assert proxy.calls == []


def test_a_refusal_of_the_catalog_is_the_last_word(lake, proxy, provider, start):
    """R305: no other identity is tried."""
    lake.plain(files=4)
    server = start()
    token = provider.token()
    proxy.token = "somebody else's"
    assert "denied" in server.error(rewrite(lake), token=token)
    assert bearers(proxy) == {f"Bearer {token}"}
    assert proxy.sent_commits == []


def test_everybody_sees_their_own_jobs(lake, provider, start):
    lake.plain(files=4)
    server = start()
    alice, bob = provider.token(), provider.token("bob", "builder")
    job = server.row(rewrite(lake), token=alice)["job_id"]
    assert [row["job_id"] for row in server.rows("SHOW JOBS", token=alice)] == [job]
    assert server.rows("SHOW JOBS", token=bob) == []
    # Another token of the same user is the same user.
    assert [row["job_id"] for row in server.rows("SHOW JOBS", token=provider.token())] == [job]
    message = server.error(f"CANCEL JOB '{job}'", token=bob)
    assert "no such job" in message, message


def test_a_token_that_will_not_last_begins_nothing(lake, proxy, provider, start):
    """Q14: the server's clock is 295 s ahead, and tokens live for 300."""
    lake.plain(files=4)
    before = lake.metadata_location("t")
    files = lake.tree("t")
    server = start('leeway = "5min"',
                   env={"LD_PRELOAD": CLOCK_AHEAD, "CLOCK_AHEAD_SECONDS": "295"})
    token = provider.token()
    message = server.error(rewrite(lake), token=token)
    assert "token expires before the commit" in message, message
    assert (lake.metadata_location("t"), lake.tree("t")) == (before, files)
    assert proxy.sent_commits == []
    # Reading needs no more than a token that is good now.
    row = server.row(f"CALL system.table_health(table => '{name_of(lake)}')", token=token)
    assert row["live_data_files"] == 4


def test_a_token_that_ends_while_a_job_works(lake, proxy, provider, start):
    """Q14: it lives for 30 s, of which the catalog takes 21: too few are left for a commit."""
    lake.plain(files=4)
    before = lake.metadata_location("t")
    files = lake.tree("t")
    server = start()
    waits = [21]

    def slow(proxy, call):
        if "/tables/" in call.path and waits:
            time.sleep(waits.pop())
        return proxy.ask(call)

    proxy.reads = [slow] * 100
    message = server.error(rewrite(lake), token=provider.token(client="momentary"))
    assert waits == []
    assert "token expires before the commit" in message, message
    assert (lake.metadata_location("t"), lake.tree("t")) == (before, files)
    assert proxy.sent_commits == []
    server.stop()
    phases = [line["phase"] for line in server.audited()
              if line["statement_type"] == "rewrite_data_files" and "phase" in line]
    assert phases[:2] == ["intent", "aborted"], phases


def test_tokens_in_exchange(lake, proxy, provider, start):
    """The catalog gets the token that was made for it, not the one that was brought."""
    lake.plain(files=2)
    server = start('client_secret = "not a secret"', providers=["token_exchange"],
                   client="exchanger")
    token = provider.token()
    row = server.row(f"CALL system.table_health(table => '{name_of(lake)}')", token=token)
    assert row["live_data_files"] == 2
    (heard,) = bearers(proxy)
    assert heard != f"Bearer {token}"
    given, brought = claims(heard), claims(token)
    assert (given["aud"], given["azp"]) == ("lake", "exchanger")
    assert given["sub"] == brought["sub"]
    assert 'client "exchanger"' in server.errors.read_text()  # It says that it holds a secret.
