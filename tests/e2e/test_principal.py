"""lithify-maintain's configuration and identity, by the program itself."""

import http.server
import json
import pathlib
import subprocess
import threading

import cli
import pytest

PROGRAM = pathlib.Path(cli.BINARY).parent / "lithify-maintain"
SERVER = pathlib.Path(cli.BINARY).parent / "lithify-serve"
SECRET = "do-not-tell-this-to-anybody"


class TokenEndpoint(http.server.BaseHTTPRequestHandler):
    """Gives a token for the secret, and remembers what it was sent."""

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        self.server.bodies.append(body)
        good = f"client_secret={SECRET}" in body
        answer = json.dumps({"access_token": "t", "token_type": "Bearer", "expires_in": 60} if good
                            else {"error": "invalid_client", "error_description": body})
        self.send_response(200 if good else 401)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer.encode())

    def log_message(self, *_):
        pass


@pytest.fixture
def endpoint():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), TokenEndpoint)
    server.bodies = []
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def config(tmp_path, endpoint):
    """config(mode) -> file."""
    def write(mode="active", secret="${MAINTENANCE_SECRET}"):
        path = tmp_path / "lithify.toml"
        path.write_text(f"""
[maintenance]
mode = "{mode}"
[maintenance.principal]
token_endpoint = "http://127.0.0.1:{endpoint.server_port}/token"
client_id = "lithify-maintenance"
client_secret = "{secret}"
[catalogs.lake]
uri = "https://127.0.0.1:1/api"
[server]
listen = "127.0.0.1:0"
""")
        return path
    return write


def run(*args, program=PROGRAM, secret=SECRET):
    env = {"PATH": "/usr/bin", "HOME": "/nonexistent"}
    if secret is not None:
        env["MAINTENANCE_SECRET"] = secret
    return subprocess.run([program, *map(str, args)], capture_output=True, text=True, timeout=60,
                          check=False, env=env)


def test_off_constructs_nothing(config, endpoint):
    """R011: no request, whatever is configured."""
    done = run("--config", config(mode="off"))
    assert (done.returncode, done.stderr) == (cli.OK, "")
    assert done.stdout == 'maintenance.mode is "off": there is nothing to do\n'
    assert run().stdout == done.stdout  # And nothing is the default.
    assert endpoint.bodies == []


def test_check_and_print(config, endpoint):
    done = run("--config", config(), "--check")
    assert (done.returncode, done.stdout, done.stderr) == (cli.OK, "", "")
    done = run("--config", config(), "--print-config", "--set", "maintenance.scheduler.lease=none")
    assert done.returncode == cli.OK
    assert 'client_secret = "***"' in done.stdout and 'lease = "none"' in done.stdout
    assert "warning: " in done.stderr and "single_scheduler_acknowledged" in done.stderr
    assert SECRET not in done.stdout + done.stderr
    assert endpoint.bodies == []
    # `lithify maintain` is the same program.
    again = run("maintain", "--config", config(), "--print-config", program=cli.BINARY)
    assert again.returncode == cli.OK and 'client_secret = "***"' in again.stdout


def test_problems_are_usage_errors(config):
    done = run("--config", config(), "--check", secret=None)
    assert done.returncode == cli.USAGE
    assert "the environment variable MAINTENANCE_SECRET is not set" in done.stderr
    done = run("--set", "maintenance.mode=active", "--check")
    assert done.returncode == cli.USAGE and "nothing to maintain" in done.stderr
    done = run("--config", config(), "--set", "maintenance.mod=off")
    assert done.returncode == cli.USAGE and 'did you mean "maintenance.mode"?' in done.stderr
    assert run("--no-such-flag").returncode == cli.USAGE


def test_the_principal_gets_a_token(config, endpoint):
    done = run("--config", config(), "--check-principal")
    assert (done.returncode, done.stderr) == (cli.OK, "")
    assert done.stdout == ("client lithify-maintenance gets a token from "
                           f"http://127.0.0.1:{endpoint.server_port}/token\n")
    assert len(endpoint.bodies) == 1
    assert "grant_type=client_credentials" in endpoint.bodies[0]


def test_a_principal_that_is_refused(config, endpoint):
    """The endpoint's own words are told, without the secret that it repeats."""
    wrong = "not-the-one-but-a-secret"
    done = run("--config", config(), "--check-principal", secret=wrong)
    assert done.returncode == cli.PARTITION_FAILED
    assert "denied: principal, job " in done.stderr and "invalid_client" in done.stderr
    assert wrong not in done.stderr
    assert len(endpoint.bodies) == 1


def test_the_server_needs_nothing_of_it(config, endpoint):
    """R002: the same file, without the principal's variable."""
    done = run("--config", config(), "--check", program=SERVER, secret=None)
    assert (done.returncode, done.stderr) == (cli.OK, "")
    done = run("config", "--config", config(secret=SECRET), program=cli.BINARY)
    assert done.returncode == cli.OK
    assert SECRET not in done.stdout and "maintenance" not in done.stdout
    done = run("--config", config(), "--set", "maintenance.mode=active", "--check", program=SERVER)
    assert done.returncode == cli.USAGE and "maintenance.mode: unknown key" in done.stderr
    assert endpoint.bodies == []
