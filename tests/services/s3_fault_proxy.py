"""A proxy on loopback between an S3 client and a server that does harm: seeded, so that the n-th
request meets the same fault in every run.

    s3_fault_proxy.py --upstream http://127.0.0.1:8333 --seed 1 --plan 'slow_down=0.05,doubled=0.02'

The plan: `KIND[@PART]=RATE[xTIMES]`, separated by commas; the first that hits is done. PART must be
in "METHOD path?query", TIMES bounds how often. What each kind does is below, at FAULTS. Prints its
address on the first line, and on SIGTERM what it did as JSON: `requests`, and each kind's number.

Requests pass as they came, with the Host that the client has signed. `--skew SECONDS` shifts every
time that the server tells, as if its clock were wrong by so much; `--age SECONDS` makes everything
that is there so much older, as if that time had gone by. `--apart PATTERN`: requests are numbered
apart by what its group finds in "METHOD path?query", so that what is asked elsewhere changes
nothing. `--in-a-row N`: no request meets more than N faults, one after the other. `--token-life
SECONDS`: so long after a session's token came first it is refused, as one that has ended; how many
there were is told as `tokens`, and the requests that were refused for it as `expired`."""

import argparse
import asyncio
import collections
import datetime
import email.utils
import json
import random
import re
import signal
import socket
import struct
import sys
import time
import urllib.parse

HEAD_BYTES_MAX = 1 << 20
STALE_SECONDS = 3.0


class Rule:
    """One entry of the plan."""

    def __init__(self, text):
        target, rate = text.split("=")
        self.kind, _, self.part = target.partition("@")
        rate, _, times = rate.partition("x")
        self.rate = float(rate)
        self.left = int(times) if times else None
        if self.kind not in FAULTS:
            raise ValueError(f"no such fault: {self.kind}; there are {', '.join(FAULTS)}")


class Message:
    """A request or an answer: its first line, its headers as they came, and its body in full."""

    def __init__(self, first, headers, body=b""):
        self.first = first
        self.headers = headers
        self.body = body

    def get(self, name):
        return next((v for n, v in self.headers if n.lower() == name), None)

    def drop(self, *names):
        self.headers = [(n, v) for n, v in self.headers if n.lower() not in names]

    @property
    def status(self):
        return int(self.first.split(" ")[1])

    @property
    def line(self):
        method, target, _ = self.first.split(" ")
        return f"{method} {target}"

    def head(self):
        lines = [self.first, *(f"{n}: {v}" for n, v in self.headers)]
        return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n"


async def read_head(reader):
    """None at the end of the connection."""
    try:
        text = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return None
    first, *lines = text.decode("latin-1")[:-4].split("\r\n")
    return Message(first, [tuple(part.strip() for part in line.split(":", 1)) for line in lines])


async def read_body(reader, message, to_end):
    """In full. What comes in chunks is joined, and gets a length."""
    if (message.get("transfer-encoding") or "").lower() == "chunked":
        while size := int((await reader.readline()).split(b";")[0], 16):
            message.body += await reader.readexactly(size)
            await reader.readexactly(2)
        while (await reader.readline()).strip():
            pass
        message.drop("transfer-encoding")
        message.headers.append(("Content-Length", str(len(message.body))))
    elif (length := message.get("content-length")) is not None:
        message.body = await reader.readexactly(int(length))
    elif to_end:
        message.body = await reader.read()
        message.headers.append(("Content-Length", str(len(message.body))))


def error(status, reason, code, *headers):
    """An answer in S3's words."""
    body = (f'<?xml version="1.0" encoding="UTF-8"?><Error><Code>{code}</Code>'
            f"<Message>injected</Message></Error>").encode()
    return Message(f"HTTP/1.1 {status} {reason}",
                   [("Content-Type", "application/xml"), ("Content-Length", str(len(body))),
                    *headers], body)


class Reset(Exception):
    """The connection breaks once these bytes are out; `clean`: it is closed as if all were said."""

    def __init__(self, sent=b"", clean=False):
        super().__init__()
        self.sent = sent
        self.clean = clean


# ----------------------------------------------------- faults: of a Proxy, a request and a Random


async def latency(proxy, request, rng):
    """Comes late."""
    await asyncio.sleep(rng.uniform(0.05, 0.4))
    return await proxy.ask(request)


async def reset_before(_proxy, _request, _rng):
    """The server never sees it."""
    raise Reset


async def reset_after(proxy, request, _rng):
    """It is carried out, and nobody hears of it."""
    await proxy.ask(request)
    raise Reset


async def reset_body(proxy, request, rng):
    """The answer breaks off somewhere."""
    answer = await proxy.ask(request)
    whole = answer.head() + answer.body
    raise Reset(whole[:rng.randrange(1, len(whole))])


async def truncated(proxy, request, rng):
    """The answer ends in its body, without a sign of trouble but its length."""
    answer = await proxy.ask(request)
    if not answer.body or request.first.startswith("HEAD"):
        return answer
    raise Reset(answer.head() + answer.body[:rng.randrange(len(answer.body))], clean=True)


async def shortened(proxy, request, rng):
    """A part of an object is less than was asked for, and its length agrees with that."""
    answer = await proxy.ask(request)
    if answer.status == 206 and answer.body:
        answer.body = answer.body[:rng.randrange(len(answer.body))]
        answer.drop("content-length")
        answer.headers.append(("Content-Length", str(len(answer.body))))
    return answer


async def internal_error(_proxy, _request, _rng):
    return error(500, "Internal Server Error", "InternalError")


async def internal_error_after(proxy, request, _rng):
    """It is carried out all the same."""
    await proxy.ask(request)
    return error(500, "Internal Server Error", "InternalError")


async def bad_gateway_after(proxy, request, _rng):
    """As a gateway says it that lost its server after that did its work."""
    await proxy.ask(request)
    return Message("HTTP/1.1 502 Bad Gateway",
                   [("Content-Type", "text/html"), ("Content-Length", "14")], b"<h1>sorry</h1>")


async def slow_down(_proxy, _request, rng):
    after = [("Retry-After", "1")] if rng.random() < 0.2 else []
    return error(503, "Slow Down", "SlowDown", *after)


async def conflict(proxy, request, _rng):
    """What Amazon answers to the loser of two conditional writes at once: it is not carried out."""
    if request.get("if-match") is None and request.get("if-none-match") is None:
        return await proxy.ask(request)
    if request.first.startswith("GET") or request.first.startswith("HEAD"):
        return await proxy.ask(request)
    return error(409, "Conflict", "ConditionalRequestConflict")


async def doubled(proxy, request, _rng):
    """Something on the way repeats it, and passes on the second answer."""
    await proxy.ask(request)
    return await proxy.ask(request)


async def stale_list(proxy, request, _rng):
    """A listing as it was a while ago, if there is one."""
    if "list-type=2" not in request.first:
        return await proxy.ask(request)
    kept = proxy.listings.get(request.line)
    if kept and time.monotonic() - kept[0] < STALE_SECONDS:
        return kept[1]
    return await proxy.ask(request)


async def too_skewed(_proxy, _request, _rng):
    """The clocks differ, says the server."""
    ahead = time.time() + 3600
    return error(403, "Forbidden", "RequestTimeTooSkewed",
                 ("Date", email.utils.formatdate(ahead, usegmt=True)))


FAULTS = {fault.__name__: fault for fault in (
    latency, reset_before, reset_after, reset_body, truncated, shortened, internal_error,
    internal_error_after, bad_gateway_after, slow_down, conflict, doubled, stale_list, too_skewed)}


class Proxy:
    """Numbers the requests of all connections as they come. `options`: those of main."""

    def __init__(self, options):
        address = urllib.parse.urlsplit(options.upstream)
        self.host, self.port = address.hostname, address.port
        self.seed = options.seed
        self.rules = [Rule(text) for text in options.plan.split(",") if text]
        self.skew = datetime.timedelta(seconds=options.skew)
        self.of_objects = datetime.timedelta(seconds=options.skew - options.age)
        self.apart = re.compile(options.apart)
        self.in_a_row = options.in_a_row
        self.token_life = options.token_life
        self.tokens = {}  # When each came first.
        self.numbers = collections.Counter()
        self.rows = collections.Counter()  # Of a request, the faults since it was well last.
        self.counters = {"requests": 0, **{rule.kind: 0 for rule in self.rules}}
        if self.token_life is not None:
            self.counters |= {"tokens": 0, "expired": 0}
        self.listings = {}  # Of a request, when it was answered, and how.

    async def ask(self, request):
        """The server's own answer, on a connection of its own."""
        reader, writer = await asyncio.open_connection(self.host, self.port, limit=HEAD_BYTES_MAX)
        try:
            writer.write(request.head() + request.body)
            await writer.drain()
            answer = await read_head(reader)
            while answer is not None and answer.status == 100:
                answer = await read_head(reader)
            if answer is None:
                raise Reset
            bodiless = request.first.startswith("HEAD") or answer.status in (204, 304)
            if not bodiless:
                await read_body(reader, answer, to_end=True)
        finally:
            writer.close()
        answer.drop("connection", "keep-alive")
        if self.skew or self.of_objects:
            self.shift(answer)
        if "list-type=2" in request.first and answer.status == 200:
            kept = self.listings.get(request.line)
            if not kept or time.monotonic() - kept[0] >= STALE_SECONDS:
                self.listings[request.line] = (time.monotonic(), answer)
        return answer

    def shift(self, answer):
        """The times that the server tells, of its clock and of what is there."""
        by = {"date": self.skew, "last-modified": self.of_objects}

        def http_date(name, text):
            return email.utils.format_datetime(
                email.utils.parsedate_to_datetime(text) + by[name.lower()], usegmt=True)

        answer.headers = [(n, http_date(n, v) if n.lower() in by else v)
                          for n, v in answer.headers]

        def iso(match):
            when = datetime.datetime.fromisoformat(match[2].decode().replace("Z", "+00:00"))
            moved = (when + self.of_objects).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"
            return match[1] + moved.encode()

        if answer.body.startswith(b"<"):
            body = re.sub(rb"(<(?:LastModified|Initiated)>)([^<]+)", iso, answer.body)
            if len(body) != len(answer.body) and answer.get("content-length"):
                answer.drop("content-length")
                answer.headers.append(("Content-Length", str(len(body))))
            answer.body = body

    def number(self, request):
        """Of the request, among those that it is numbered with."""
        self.counters["requests"] += 1
        found = self.apart.search(request.line)
        group = found[1] if found else ""
        self.numbers[group] += 1
        return f"{group}/{self.numbers[group]}"

    def has_ended(self, request):
        """Whether its session has."""
        token = request.get("x-amz-security-token")
        if token is None or self.token_life is None:
            return False
        now = time.monotonic()
        first = self.tokens.setdefault(token, now)
        self.counters["tokens"] = len(self.tokens)
        return now - first > self.token_life

    async def answer(self, request):
        number = self.number(request)
        if self.has_ended(request):
            self.counters["expired"] += 1
            return error(400, "Bad Request", "ExpiredToken")
        if self.rows[request.line] < self.in_a_row:
            for index, rule in enumerate(self.rules):
                rng = random.Random(f"{self.seed}/{number}/{index}")
                if rule.left == 0 or rule.part not in request.line or rng.random() >= rule.rate:
                    continue
                if rule.left is not None:
                    rule.left -= 1
                self.counters[rule.kind] += 1
                self.rows[request.line] += 1
                return await FAULTS[rule.kind](self, request, rng)
        del self.rows[request.line]
        return await self.ask(request)

    async def serve(self, reader, writer):
        """One connection of a client."""
        try:
            while (request := await read_head(reader)) is not None:
                if (request.get("expect") or "").lower() == "100-continue":
                    writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
                    request.drop("expect")
                await read_body(reader, request, to_end=False)
                answer = await self.answer(request)
                writer.write(answer.head() + (b"" if request.first.startswith("HEAD")
                                              else answer.body))
                await writer.drain()
        except Reset as reset:
            writer.write(reset.sent)
            if not reset.clean:
                # What was written so far goes out; then nothing but a reset.
                await asyncio.sleep(0)
                writer.get_extra_info("socket").setsockopt(
                    socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        except (OSError, ValueError, asyncio.IncompleteReadError):
            pass  # A client that went away, or is killed.
        finally:
            writer.close()


async def run(options):
    proxy = Proxy(options)
    server = await asyncio.start_server(proxy.serve, "127.0.0.1", 0, limit=HEAD_BYTES_MAX)
    print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", flush=True)
    stopped = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
    await stopped.wait()
    server.close()
    print(json.dumps(proxy.counters), flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="An S3 proxy that injects faults.")
    parser.add_argument("--upstream", required=True)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--plan", default="")
    parser.add_argument("--skew", type=float, default=0)
    parser.add_argument("--age", type=float, default=0)
    parser.add_argument("--apart", default="()")
    parser.add_argument("--in-a-row", type=int, default=sys.maxsize)
    parser.add_argument("--token-life", type=float)
    asyncio.run(run(parser.parse_args()))
