"""lithify-maintain before real parts: its principal is a client of Keycloak, and the catalog is
rustberg, which asks policies about every request. Both are reached through proxies that keep a
record of every request. The one before the catalog is its gateway: it asks Keycloak about every
token and knows which of rustberg's own keys belongs to whom, since this release of rustberg comes
without the cryptography that its own verification of tokens needs."""

import base64
import itertools
import json
import os
import pathlib
import secrets
import subprocess
import threading
import time
import urllib.parse
import urllib.request

import cli
import pytest
from granting import KEY, PERMIT
from iceberg_lake import as_time_goes_by
from proxy import Proxy, error
from pyiceberg.catalog.rest import RestCatalog
from rest_lake import RestLake
from service_script import run_script

PROGRAM = pathlib.Path(cli.BINARY).parent / "lithify-maintain"
REALM = "maintained"
direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
numbers = itertools.count(1)
DAY = 86400

# Top-level namespace to what the principal may do below it.
MAY = {
    "sales": '[Rustberg::Action::"Read", Rustberg::Action::"List", Rustberg::Action::"Update"]',
    "state": '[Rustberg::Action::"Read", Rustberg::Action::"List", Rustberg::Action::"Update"]',
    "lent": '[Rustberg::Action::"Read", Rustberg::Action::"List"]',  # And no Update.
    "hidden": None,
}
CATALOG = """
[server.auth]
api_key_enabled = true
policy_file = "{policies}"
{keys}
[rate_limit]
enabled = false
[audit]
sink = "file"
path = "{audit}"
"""
# Whom the catalog knows.
NAMES = ("owner", "maintainer", "stranger", "alice")
AUDIENCE = [{"name": f"audience {name}", "protocol": "openid-connect",
             "protocolMapper": "oidc-audience-mapper",
             "config": {"included.client.audience": name, "access.token.claim": "true"}}
            for name in ("lake", "gateway")]


def call(url, method="GET", body=None, token=None, form=None):
    """The parsed answer, or None where there is none."""
    data, kind = None, "application/json"
    if form is not None:
        data, kind = urllib.parse.urlencode(form).encode(), "application/x-www-form-urlencoded"
    elif body is not None:
        data = json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"Content-Type": kind}, method=method)
    if token:
        request.add_header("Authorization", f"Bearer {token}")
    with direct.open(request, timeout=60) as answer:
        text = answer.read()
    return json.loads(text) if text else None


def claims(header):
    """Of the JWT in an Authorization header; {} if it is none."""
    parts = (header or "").removeprefix("Bearer ").split(".")
    if len(parts) != 3:
        return {}
    return json.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))


class Identities:
    """A realm of Keycloak: service accounts `maintainer` and `stranger`, alice, an analyst,
    and the owner of the tables."""

    def __init__(self, address):
        self.address = address
        self.secrets = {name: secrets.token_urlsafe(24)
                        for name in ("maintainer", "stranger", "gateway")}
        call(f"{address}/admin/realms", "POST", self.realm(), self.admin())

    @property
    def issuer(self):
        return f"{self.address}/realms/{REALM}"

    def token_path(self):
        return f"/realms/{REALM}/protocol/openid-connect/token"

    def admin(self):
        return call(f"{self.address}/realms/master/protocol/openid-connect/token", "POST", form={
            "grant_type": "password", "username": "admin", "password": "not a secret",
            "client_id": "admin-cli"})["access_token"]

    def realm(self):
        accounts = [{"clientId": name, "secret": secret, "publicClient": False,
                     "serviceAccountsEnabled": True, "standardFlowEnabled": False,
                     "directAccessGrantsEnabled": False, "protocolMappers": AUDIENCE}
                    for name, secret in self.secrets.items()]
        people = {"clientId": "people", "publicClient": True, "directAccessGrantsEnabled": True,
                  "standardFlowEnabled": False, "protocolMappers": AUDIENCE,
                  "attributes": {"access.token.lifespan": f"{2 * DAY}"}}
        users = [{"username": name, "enabled": True, "email": f"{name}@example.org",
                  "emailVerified": True, "firstName": name, "lastName": "Example",
                  "credentials": [{"type": "password", "value": "wonderland"}]}
                 for name in ("alice", "owner")]
        return {"realm": REALM, "enabled": True, "accessTokenLifespan": 300,
                "ssoSessionMaxLifespan": 3 * DAY, "ssoSessionIdleTimeout": 3 * DAY,
                "clients": [*accounts, people, {"clientId": "lake", "publicClient": True}],
                "users": users}

    def of_client(self, name):
        return call(self.issuer + "/protocol/openid-connect/token", "POST", form={
            "grant_type": "client_credentials", "client_id": name,
            "client_secret": self.secrets[name]})["access_token"]

    def of_alice(self):
        return self.of_person("alice")

    def of_person(self, name):
        return call(self.issuer + "/protocol/openid-connect/token", "POST", form={
            "grant_type": "password", "username": name, "password": "wonderland",
            "client_id": "people"})["access_token"]

    def who(self, token):
        """Whose token it is, by the provider's own word; None: nobody's."""
        said = call(self.issuer + "/protocol/openid-connect/token/introspect", "POST", form={
            "token": token, "client_id": "gateway", "client_secret": self.secrets["gateway"]})
        if not said["active"] or "lake" not in said["aud"]:
            return None
        name = said["username"]
        return name.removeprefix("service-account-")


class Gateway(Proxy):
    """Before the catalog. Who shows no token of the provider's does not come through."""

    def __init__(self, service, identities):
        super().__init__(service.uri)
        self.service, self.identities = service, identities
        self.known = {}  # Whose a token is.
        self.asking = threading.Lock()

    def answer(self, call):
        token = call.headers.get("Authorization", "").removeprefix("Bearer ")
        with self.asking:
            if token not in self.known:
                self.known[token] = self.identities.who(token)
        call.who = self.known[token]
        if call.who not in self.service.keys:
            return error(401, "NotAuthorizedException", "not a token of this realm")(self, call)
        queue = self.commits if call.is_commit else self.reads
        with self.lock:
            fault = queue.pop(0) if queue else type(self).ask
        return fault(self, call)

    def ask(self, call):
        kept = call.headers
        call.headers = {**kept, "Authorization": f"Bearer {self.service.keys[call.who]}"}
        try:
            return super().ask(call)
        finally:
            call.headers = kept


class Service:
    """The catalog: the owner may do everything, alice read, the maintainer what MAY says. Its
    files are below `warehouse`, which `storage` (lines of its configuration) reaches."""

    def __init__(self, directory, warehouse="", storage=""):
        self.audit = directory / "audit.jsonl"
        self.keys = {name: "rb_" + secrets.token_urlsafe(32) for name in NAMES}
        self.key = self.keys["owner"]
        self.rules = ['permit(principal in Rustberg::Group::"owner", action, resource);',
                      'permit(principal in Rustberg::Group::"alice", action in '
                      '[Rustberg::Action::"Read", Rustberg::Action::"List"], resource);']
        self.rules += [self.permit(space) for space, actions in MAY.items() if actions]
        (directory / "policies.cedar").write_text("\n".join(self.rules))
        config = directory / "rustberg.toml"
        config.write_text(CATALOG.format(
            policies=directory / "policies.cedar", audit=self.audit,
            keys="".join(KEY.format(role=name, upper=name.upper()) for name in NAMES)) + storage)
        self.uri = run_script("rustberg.sh", "start", directory, config, warehouse, env={
            f"TEST_KEY_{name.upper()}": key for name, key in self.keys.items()})

    @staticmethod
    def permit(space):
        return PERMIT.format(annotation="", role="maintainer", actions=MAY[space]).replace(
            'Namespace::"acme\\u{1F}sales"', f'Namespace::"acme\\u{{1F}}{space}"')

    def decide(self, *more, without=()):
        """From now on these rules hold too, and those of the namespaces `without` do not."""
        left = [rule for rule in self.rules if rule not in map(self.permit, without)]
        call(f"{self.uri}/management/v1/policies", "PUT", {"source": "\n".join([*left, *more])},
             self.key)

    def recorded(self):
        """The audit events of the catalog itself."""
        return [json.loads(line) for line in self.audit.read_text().splitlines()]


@pytest.fixture(scope="session")
def identities(tmp_path_factory):
    directory = tmp_path_factory.mktemp("identities")
    yield Identities(run_script("keycloak.sh", "start", directory))
    run_script("keycloak.sh", "stop", directory)


@pytest.fixture(scope="session")
def judged(tmp_path_factory):
    directory = tmp_path_factory.mktemp("judged")
    service = Service(directory)
    yield service
    run_script("rustberg.sh", "stop", directory)


CONFIG = """
[catalogs.lake]
uri = "{catalog}"
{section}
[maintenance]
mode = "active"
catalog = "lake"
namespaces = {namespaces}
[maintenance.principal]
token_endpoint = "{endpoint}"
client_id = "{client}"
client_secret = "${{SQE_MAINTENANCE_CLIENT_SECRET}}"
user_id = "the maintainer"
[maintenance.scheduler]
quiet_secs = 0
jitter_secs = 0
backoff_secs = 0
backoff_max_secs = 1
lease_ttl_secs = 60
state_table = "{log}"
{scheduler}
[maintenance.budget]
gain_percent_min = 0
"""


class Maintained(RestLake):
    """A namespace of the owner's below one of MAY, and lithify-maintain on it."""

    reads_files = {}  # How the owner's pyiceberg does.
    owner_section = ""  # Of the owner's configuration.

    def __init__(self, identities, service, seen, asked, directory, number, space="sales"):
        catalog = RestCatalog("lake", uri=service.uri, token=service.key,
                              **self.reads_files)
        super().__init__(catalog, seen.uri, (space, f"n{number}"), {})
        self.identities, self.service = identities, service
        self.seen = seen  # Before the catalog.
        self.asked = asked  # Before the identity provider.
        self.home = directory
        self.log = ("state", f"log{number}")
        self.config = directory / "lithify.toml"
        self.secret = identities.secrets["maintainer"]
        self.owner_file = directory / "owner.toml"
        self.owner_file.write_text(
            f'[catalogs.lake]\nuri = "{service.uri}"\ntoken = "{service.key}"\n'
            f'{self.owner_section}')
        self.init_state()
        self.configure()

    def init_state(self):
        cli.run("init-state", "lake." + ".".join(self.log), "--config", str(self.owner_file),
                "--json", env={"XDG_STATE_HOME": str(self.home / "owner")})

    def configure(self, namespaces=None, client="maintainer", scheduler="", section="",
                  endpoint=None):
        self.config.write_text(CONFIG.format(
            catalog=self.seen.uri, endpoint=endpoint or self.asked.uri +
            self.identities.token_path(), client=client, log=".".join(self.log),
            namespaces=json.dumps(namespaces or [".".join(self.namespace)]),
            scheduler=scheduler, section=section))

    def key_of(self, name="t"):
        return ".".join(["lake", *self.namespace, name])

    def opt_in(self, name="t", value="true", **more):
        with self.load(name).transaction() as change:
            change.set_properties({"sqe.maintenance.enabled": value, **more})

    def opt_out(self, name="t"):
        with self.load(name).transaction() as change:
            change.remove_properties("sqe.maintenance.enabled")

    # --- the program -----------------------------------------------------------------------------

    def environment(self, home="state", env=None):
        return {**cli.environment(env), "XDG_STATE_HOME": str(self.home / home),
                "SQE_MAINTENANCE_CLIENT_SECRET": self.secret}

    def start(self, *args, home="state", env=None):
        return subprocess.Popen([PROGRAM, *args, "--config", self.config], text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                env=self.environment(home, env))

    def ended(self, process, code=0):
        out, err = process.communicate(timeout=120)
        assert self.secret not in out + err
        assert code in (None, process.returncode), (process.returncode, out, err)
        return json.loads(out)

    def report(self, *args, code=0, home="state", env=None):
        """Of a run-once."""
        return self.ended(self.start("run-once", *args, "--json", home=home, env=env), code)

    # --- what is on record -----------------------------------------------------------------------

    def audit_file(self, home="state"):
        return self.home / home / "lithify" / "maintenance.audit.jsonl"

    def audited(self, home="state"):
        return [json.loads(line) for line in self.audit_file(home).read_text().splitlines()]

    def verify_audit(self, home="state"):
        cli.run("audit", "verify", self.audit_file(home))
        text = self.audit_file(home).read_text()
        assert self.secret not in text and "Bearer" not in text and "eyJ" not in text

    def log_rows(self, *triggers):
        rows = self.catalog.load_table(self.log).scan().to_arrow().to_pylist()
        return [row for row in rows if row["trigger"] in (triggers or ("scheduled",))]

    def state(self, name="t"):
        return self.metadata_location(name), self.tree(name)

    def bearers(self, since=0):
        """Whose tokens the catalog has got."""
        return {one.who for one in self.seen.calls[since:]}

    def tokens_asked(self, since=0):
        """The client ids that asked for tokens, and what they were told."""
        return [(dict(urllib.parse.parse_qsl(one.body.decode())).get("client_id"), one.status)
                for one in self.asked.calls[since:]]

    def of_metric(self, report, name):
        return sum(one["value"] for one in report["metrics"] if one["name"] == name)

    def without_data(self, name="t"):
        """Takes the data files away while it lasts: whoever reads one fails by that."""
        return Away(self.directory(name) / "data")

    def sweep(self, name="t"):
        """As the owner, after days."""
        self.age(name)
        return cli.run("remove-orphan-files", self.named(name), "--config", str(self.owner_file),
                "--json", "--force", env={"XDG_STATE_HOME": str(self.home / "owner"),
                                          **as_time_goes_by("remove-orphan-files")})


@pytest.fixture
def seen(judged, identities):
    with Gateway(judged, identities) as gateway:
        yield gateway


@pytest.fixture
def asked(identities):
    with Proxy(identities.address) as proxy:
        yield proxy


@pytest.fixture
def make(judged, identities, seen, asked, tmp_path):
    """make(space) -> a namespace of its own, in which the principal may do what MAY says."""
    def one(space="sales"):
        number = next(numbers)
        directory = tmp_path / f"m{number}"
        directory.mkdir()
        return Maintained(identities, judged, seen, asked, directory, number, space)

    yield one
    judged.decide()


class Away:
    def __init__(self, path):
        self.path = path
        self.kept = path.with_name("kept")

    def __enter__(self):
        os.rename(self.path, self.kept)

    def __exit__(self, *_):
        assert not self.path.exists()  # Nothing was written either.
        os.rename(self.kept, self.path)


def until(condition, seconds=60, process=None):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        assert process is None or process.poll() is None, process.communicate()
        time.sleep(0.01)
