"""A proxy on loopback between a client and a REST catalog. It keeps a record of what passes, does
to commits what a test asks of it, and is the token endpoint of a catalog that wants OAuth2."""

import http.client
import http.server
import json
import socket
import threading
import time
import urllib.parse

HOP_BY_HOP = {"connection", "keep-alive", "proxy-connection", "te", "trailer", "transfer-encoding",
              "upgrade", "content-length", "host"}


class Call:
    """A request as it came, with the status that the client got (None: no answer)."""

    def __init__(self, method, path, headers, body):
        self.method = method
        self.path = path
        self.headers = headers
        self.body = body
        self.status = None

    @property
    def is_commit(self):
        """A commit to a table; not the creation of one."""
        parts = self.path.partition("?")[0].split("/")
        return self.method == "POST" and "tables" in parts[:-1]


class Answer:
    """What the catalog says."""

    def __init__(self, status, headers, body):
        self.status = status
        self.headers = headers
        self.body = body


# --- faults: functions of (proxy, call) that give an answer, or None for a lost connection -------


def forward(proxy, call):
    return proxy.ask(call)


def lose_reply(proxy, call):
    proxy.ask(call)


def lose_request(_proxy, _call):
    return None


def error(status, kind, message, headers=(), forwarded=False):
    """An error in the catalog's own words."""
    body = json.dumps({"error": {"message": message, "type": kind, "code": status}}).encode()

    def fault(proxy, call):
        if forwarded:
            proxy.ask(call)
        return Answer(status, [("Content-Type", "application/json"), *headers], body)

    return fault


def page(status, forwarded=False):
    """What a gateway says that stands before the catalog."""

    def fault(proxy, call):
        if forwarded:
            proxy.ask(call)
        return Answer(status, [("Content-Type", "text/html")], b"<h1>sorry</h1>")

    return fault


def cut_off(proxy, call):
    """The commit is made; half of the answer arrives."""
    answer = proxy.ask(call)
    answer.headers.append(("X-Test-Cut", "1"))
    return answer


def late(seconds, forwarded=True):
    """An answer that takes its time."""

    def fault(proxy, call):
        time.sleep(seconds)
        return proxy.ask(call) if forwarded else None

    return fault


def after(action):
    """Forwards once something else has been done to the table."""

    def fault(proxy, call):
        action()
        return proxy.ask(call)

    return fault


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def handle_any(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        call = Call(self.command, self.path, dict(self.headers.items()), body)
        proxy = self.server.proxy
        with proxy.lock:
            proxy.calls.append(call)
        answer = proxy.answer(call)
        if answer is None:
            self.close_connection = True
            self.connection.shutdown(socket.SHUT_RDWR)
            return
        call.status = answer.status
        self.send_response(answer.status)
        cut = False
        length = len(answer.body)
        for name, value in answer.headers:
            if name.lower() == "content-length" and self.command == "HEAD":
                length = value
            if name == "X-Test-Cut":
                cut = True
            elif name.lower() not in HOP_BY_HOP:
                self.send_header(name, value)
        self.send_header("Content-Length", str(length))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(answer.body[:len(answer.body) // 2] if cut else answer.body)
        self.close_connection |= cut

    do_GET = do_HEAD = do_POST = do_PUT = do_DELETE = handle_any


class Proxy:
    """`commits`: faults for the next commits, one each; forwarded when there are none left.
    `reads`: the same for every other request. `token`: if set, what a request must bear."""

    own_headers = HOP_BY_HOP  # Of its own connection.

    def __init__(self, upstream):
        self.upstream = urllib.parse.urlsplit(upstream).netloc
        self.lock = threading.Lock()
        self.calls = []
        self.commits = []
        self.reads = []
        self.token = None
        self.clients = {}  # Id to secret, of the token endpoint.
        self.expires_in = 3600
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.server.proxy = self
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()

    @property
    def uri(self):
        return f"http://127.0.0.1:{self.server.server_address[1]}"

    @property
    def sent_commits(self):
        return [call for call in self.calls if call.is_commit]

    def ask(self, call):
        """The catalog's own answer."""
        connection = http.client.HTTPConnection(self.upstream, timeout=60)
        try:
            headers = {k: v for k, v in call.headers.items() if k.lower() not in self.own_headers}
            connection.request(call.method, call.path, body=call.body or None, headers=headers)
            response = connection.getresponse()
            return Answer(response.status, response.getheaders(), response.read())
        finally:
            connection.close()

    def answer(self, call):
        if call.path.partition("?")[0].endswith("/v1/oauth/tokens"):
            return self.issue(call)
        if self.token and call.headers.get("Authorization") != f"Bearer {self.token}":
            return error(401, "NotAuthorizedException", "no such token")(self, call)
        queue = self.commits if call.is_commit else self.reads
        with self.lock:
            fault = queue.pop(0) if queue else forward
        return fault(self, call)

    def issue(self, call):
        """Client credentials in a form [RFC 6749, 4.4]."""
        form = dict(urllib.parse.parse_qsl(call.body.decode()))
        known = self.clients.get(form.get("client_id"))
        right = known is not None and known == form.get("client_secret")
        if form.get("grant_type") != "client_credentials" or not right:
            words = {"error": "invalid_client", "error_description": "no such client"}
            return Answer(401, [("Content-Type", "application/json")], json.dumps(words).encode())
        issued = {"access_token": self.token, "token_type": "bearer",
                  "expires_in": self.expires_in}
        return Answer(200, [("Content-Type", "application/json")], json.dumps(issued).encode())
