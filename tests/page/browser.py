"""A headless Chromium, driven over a pipe with its own protocol: no driver is between."""

import base64
import contextlib
import json
import os
import pathlib
import subprocess
import time

HERE = pathlib.Path(__file__).resolve().parent
ARTEFACTS = HERE.parents[1] / "build" / "page"
WIDE = (1440, 900)
PHONE = (390, 844)


def installed():
    """Where Chromium and axe-core are; installs them where they are not."""
    done = subprocess.run(["bash", str(HERE / "browser.sh")], stdout=subprocess.PIPE, text=True,
                          check=True, stdin=subprocess.DEVNULL)
    chromium, axe = done.stdout.split()
    return chromium, pathlib.Path(axe).read_text(encoding="utf-8")


class Browser:
    def __init__(self, profile):
        chromium, self.axe = installed()
        to_browser, write = os.pipe()
        read, from_browser = os.pipe()

        def wire():  # The protocol's own descriptors are 3 and 4.
            high = [os.dup2(to_browser, 63), os.dup2(from_browser, 64)]
            os.dup2(high[0], 3)
            os.dup2(high[1], 4)

        command = [chromium, "--headless=new", "--remote-debugging-pipe", "--no-sandbox",
                   "--disable-gpu", "--hide-scrollbars", "--no-first-run", "--disable-extensions",
                   "--disable-background-networking", "--disable-component-update",
                   "--disable-dev-shm-usage", "--force-color-profile=srgb", "--lang=en-GB",
                   f"--user-data-dir={profile}", "about:blank"]
        self.process = subprocess.Popen(command, preexec_fn=wire, pass_fds=(3, 4),
                                        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                        stderr=subprocess.DEVNULL,
                                        env={**os.environ, "TZ": "UTC"})
        os.close(to_browser)
        os.close(from_browser)
        self.write = os.fdopen(write, "wb", 0)
        self.read = read
        self.buffer = b""
        self.last = 0
        self.pages = {}

    def close(self):
        with contextlib.suppress(OSError):
            self.send("Browser.close")
        try:
            self.process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.write.close()
        os.close(self.read)

    def send(self, method, params=None, session=None):
        self.last += 1
        message = {"id": self.last, "method": method, "params": params or {}}
        if session:
            message["sessionId"] = session
        self.write.write(json.dumps(message).encode() + b"\0")
        return self.last

    def call(self, method, params=None, session=None):
        wanted = self.send(method, params, session)
        while True:
            message = self.receive()
            if message.get("id") == wanted:
                assert "error" not in message, message["error"]
                return message["result"]

    def receive(self):
        while b"\0" not in self.buffer:
            more = os.read(self.read, 1 << 20)
            assert more, "the browser has ended"
            self.buffer += more
        line, self.buffer = self.buffer.split(b"\0", 1)
        message = json.loads(line)
        page = self.pages.get(message.get("sessionId"))
        if page and "method" in message:
            page.heard(message["method"], message["params"])
        return message

    def page(self, size=WIDE, dark=False):
        context = self.call("Target.createBrowserContext")["browserContextId"]
        target = self.call("Target.createTarget",
                           {"url": "about:blank", "browserContextId": context})["targetId"]
        session = self.call("Target.attachToTarget",
                            {"targetId": target, "flatten": True})["sessionId"]
        return Page(self, session, context, size, dark)


class Page:
    """One page, in a context of its own: no storage is shared. Keeps what went wrong in it and what
    it asked for."""

    def __init__(self, browser, session, context, size, dark):
        self.browser = browser
        self.session = session
        self.context = context
        self.problems = []
        self.requests = []
        browser.pages[session] = self
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")
        self.resize(size, dark)

    def close(self):
        self.browser.call("Target.disposeBrowserContext", {"browserContextId": self.context})
        del self.browser.pages[self.session]

    def call(self, method, **params):
        return self.browser.call(method, params, self.session)

    def heard(self, method, params):
        if method == "Runtime.exceptionThrown":
            details = params["exceptionDetails"]
            self.problems.append(details.get("exception", {}).get("description", details["text"]))
        elif method == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning"):
            self.problems.append(str(params["args"]))
        elif method == "Log.entryAdded" and params["entry"]["level"] == "error":
            self.problems.append(f"{params['entry']['text']} {params['entry'].get('url', '')}")
        elif method == "Network.requestWillBeSent":
            self.requests.append(params["request"])
        elif method == "Page.javascriptDialogOpening":
            self.problems.append(f"dialog: {params['message']}")

    def resize(self, size, dark=False):
        width, height = size
        phone = width < 600
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height,
                  deviceScaleFactor=2 if phone else 1, mobile=phone)
        self.call("Emulation.setEmulatedMedia", features=[
            {"name": "prefers-color-scheme", "value": "dark" if dark else "light"},
            {"name": "prefers-reduced-motion", "value": "reduce"}])

    def open(self, url):
        self.call("Page.navigate", url=url)
        return self.until("document.readyState === 'complete' && location.href !== 'about:blank'")

    def evaluate(self, expression):
        done = self.call("Runtime.evaluate", expression=expression, awaitPromise=True,
                         returnByValue=True)
        assert "exceptionDetails" not in done, done["exceptionDetails"]
        return done["result"].get("value")

    def until(self, expression, seconds=30):
        """Waits until it is true."""
        end = time.monotonic() + seconds
        while True:
            value = self.evaluate(f"Boolean({expression})")
            if value:
                return value
            assert time.monotonic() < end, f"never true: {expression}; {self.text()[:2000]}"
            time.sleep(0.05)

    def text(self, selector="body"):
        return self.evaluate(f"document.querySelector({json.dumps(selector)})?.innerText ?? ''")

    def press(self, key, code=0, text=None):
        base = {"key": key, "code": key, "windowsVirtualKeyCode": code}
        self.call("Input.dispatchKeyEvent", type="keyDown", **base,
                  **({"text": text} if text else {}))
        self.call("Input.dispatchKeyEvent", type="keyUp", **base)

    def type(self, text):
        self.call("Input.insertText", text=text)

    def click(self, selector):
        x, y = self.evaluate(f"""(() => {{
          const node = document.querySelector({json.dumps(selector)});
          node.scrollIntoView({{block: "center"}});
          const box = node.getBoundingClientRect();
          // Near its beginning: what is too long for its place is cut off.
          return [box.x + Math.min(20, box.width / 2), box.y + box.height / 2];
        }})()""")
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left",
                      clickCount=1)

    def screenshot(self, name, full=False):
        ARTEFACTS.mkdir(parents=True, exist_ok=True)
        shot = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=full,
                         **({"clip": self.whole()} if full else {}))
        (ARTEFACTS / f"{name}.png").write_bytes(base64.b64decode(shot["data"]))

    def whole(self):
        size = self.call("Page.getLayoutMetrics")["cssContentSize"]
        return {"x": 0, "y": 0, "width": size["width"], "height": min(size["height"], 6000),
                "scale": 1}

    def violations(self):
        """What axe-core finds, by the rules of WCAG 2.2 and its own best practices. The debugger
        brings it in: the page's own policy lets no such thing in."""
        self.evaluate(self.browser.axe + "; true")
        found = self.evaluate("""axe.run(document, {resultTypes: ["violations"]}).then((r) =>
          r.violations.map((v) => [v.id, v.impact, v.nodes.slice(0, 3).map((n) =>
            n.html.slice(0, 300) + " " + n.failureSummary)]))""")
        return found
