"""A REST catalog that asks a policy about every request, with principals of several grants, and a
lake in it that lithify works on as one of them."""

import json
import secrets

import cli
import pytest
from iceberg_lake import as_time_goes_by
from pyiceberg.catalog.rest import RestCatalog
from rest_lake import RestLake
from service_script import run_script

# Role to what it may do below the namespace "sales". `owner` may do everything everywhere.
ROLES = {
    "reader": '[Rustberg::Action::"Read", Rustberg::Action::"List"]',
    "writer": '[Rustberg::Action::"Read", Rustberg::Action::"Update"]',
    "nobody": None,
}
RESTRICTED = {
    "rows": r'''@row_filter("{\"type\":\"eq\",\"term\":\"region\",\"value\":\"eu\"}")''',
    "columns": '@column_mask("note")',
}
PERMIT = """{annotation}
permit(principal in Rustberg::Group::"{role}", action in {actions},
       resource in Rustberg::Namespace::"acme\\u{{1F}}sales");
"""
CONFIG = """
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
KEY = """
[[server.auth.api_keys]]
name = "{role}"
tenant = "acme"
roles = ["{role}"]
key_env = "TEST_KEY_{upper}"
"""


class Service:
    def __init__(self, uri, keys, audit):
        self.uri = uri
        self.keys = keys
        self.audit = audit

    def refusals(self):
        """What the catalog itself has recorded as denied."""
        events = [json.loads(line) for line in self.audit.read_text().splitlines()]
        return [event for event in events if event["outcome"] == "denied"]


@pytest.fixture(scope="session")
def granting(tmp_path_factory):
    directory = tmp_path_factory.mktemp("grants")
    policies = ['permit(principal in Rustberg::Group::"owner", action, resource);']
    for role, actions in ROLES.items():
        if actions:
            policies.append(PERMIT.format(role=role, actions=actions, annotation=""))
    for role, annotation in RESTRICTED.items():
        policies.append(PERMIT.format(role=role, actions=ROLES["writer"], annotation=annotation))
    (directory / "policies.cedar").write_text("\n".join(policies))
    keys = {role: "rb_" + secrets.token_urlsafe(32) for role in ("owner", *ROLES, *RESTRICTED)}
    (directory / "rustberg.toml").write_text(CONFIG.format(
        policies=directory / "policies.cedar", audit=directory / "audit.jsonl",
        keys="".join(KEY.format(role=role, upper=role.upper()) for role in keys)))
    uri = run_script("rustberg.sh", "start", directory, directory / "rustberg.toml",
                     env={f"TEST_KEY_{role.upper()}": key for role, key in keys.items()})
    yield Service(uri, keys, directory / "audit.jsonl")
    run_script("rustberg.sh", "stop", directory)


class Grants(RestLake):
    """Tables made by the owner; lithify runs as one of the others."""

    def __init__(self, service, home, namespace, config):
        catalog = RestCatalog("lake", uri=service.uri, token=service.keys["owner"])
        super().__init__(catalog, service.uri, namespace, {"XDG_STATE_HOME": str(home)})
        self.service = service
        self.config = config
        self.config.write_text(f'[catalogs.lake]\nuri = "{service.uri}"\ntoken = "${{TEST_KEY}}"\n')
        self.home = home

    def as_(self, role, command, name, *args, code=0, key=None):
        key = key or self.service.keys[role]
        run = cli.run(command, self.named(name), "--config", str(self.config), "--json", *args,
                      code=code, env={**self.env, **as_time_goes_by(command), "TEST_KEY": key})
        assert key not in run.text + json.dumps(self.audited())
        return run

    def audited(self):
        return [json.loads(line) for path in self.home.rglob("*.audit.jsonl")
                for line in path.read_text().splitlines()]

    def state(self, name):
        return self.metadata_location(name), self.tree(name)
