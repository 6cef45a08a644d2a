"""A page in headless Chromium, driven over the DevTools protocol's pipe: messages of JSON that end
in a zero byte, on descriptors 3 and 4."""

import json
import os
import select
import shutil
import subprocess
import tempfile
import time

LIMIT = 120  # seconds that one answer may take, on a busy machine too


def find():
    """Chromium's program, or None."""
    return shutil.which("chromium") or shutil.which("chromium-browser")


class Browser:
    """One page. What its scripts report as errors is in `errors`, what it asks the network for in
    `requests`."""

    def __init__(self, dark=False):
        self.folder = tempfile.TemporaryDirectory(prefix="nano-browser-")
        commands, self.write = os.pipe()
        self.read, answers = os.pipe()

        def inherit():
            # By way of numbers that are neither of them.
            first, second = os.dup(commands), os.dup(answers)
            os.dup2(first, 3)
            os.dup2(second, 4)

        self.process = subprocess.Popen(
            [find(), "--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run",
             "--disable-dev-shm-usage", "--disable-extensions", "--disable-background-networking",
             f"--user-data-dir={self.folder.name}", "--window-size=1400,1000",
             "--remote-debugging-pipe", "about:blank"],
            preexec_fn=inherit, close_fds=False, stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(commands)
        os.close(answers)
        self.pending, self.number, self.session = b"", 0, None
        self.errors, self.requests = [], []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self.session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        if dark:
            self.call("Emulation.setEmulatedMedia",
                      features=[{"name": "prefers-color-scheme", "value": "dark"}])

    def close(self):
        self.process.kill()
        self.process.wait()
        os.close(self.read)
        os.close(self.write)
        for _ in range(20):  # its children may still be writing
            try:
                self.folder.cleanup()
                return
            except OSError:
                time.sleep(0.1)

    def receive(self, until):
        while b"\0" not in self.pending:
            left = until - time.monotonic()
            if left <= 0 or not select.select([self.read], [], [], left)[0]:
                raise TimeoutError("Chromium does not answer")
            data = os.read(self.read, 1 << 20)
            if not data:
                raise EOFError("Chromium has ended")
            self.pending += data
        message, self.pending = self.pending.split(b"\0", 1)
        message = json.loads(message)
        parameters = message.get("params", {})
        if message.get("method") == "Runtime.exceptionThrown":
            self.errors.append(parameters["exceptionDetails"])
        if message.get("method") == "Log.entryAdded" and parameters["entry"]["level"] == "error":
            self.errors.append(parameters["entry"])
        if message.get("method") == "Network.requestWillBeSent":
            self.requests.append(parameters["request"]["url"])
        return message

    def call(self, method, **parameters):
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.write, json.dumps(message).encode() + b"\0")
        until = time.monotonic() + LIMIT
        while True:
            answer = self.receive(until)
            if answer.get("id") == self.number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]

    def evaluate(self, expression):
        """The value of a JavaScript expression, which may be a promise."""
        answer = self.call("Runtime.evaluate", expression=expression, awaitPromise=True,
                           returnByValue=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(f"{expression}: {answer['exceptionDetails']}")
        return answer["result"].get("value")

    def wait(self, expression):
        """Until the expression is true."""
        until = time.monotonic() + LIMIT
        while time.monotonic() < until:
            if self.evaluate(f"!!({expression})"):
                return
            time.sleep(0.02)
        raise TimeoutError(f"never true: {expression}")

    def open(self, path, place=""):
        """Opens a file at a place of it, whose view is shown when this returns."""
        self.call("Page.navigate", url="about:blank")
        self.call("Page.navigate", url=f"file://{path}{place}")
        self.shown(place)

    def shown(self, place):
        wanted = json.dumps(place or "#")
        self.wait(f"document.documentElement?.dataset.asked === {wanted}")

    def go(self, place):
        """Changes the place within the page."""
        self.evaluate(f"location.hash = {json.dumps(place)}")
        self.shown(place)

    def text(self, selector):
        return self.evaluate(f"document.querySelector({json.dumps(selector)})?.innerText ?? null")

    def texts(self, selector):
        return self.evaluate(
            f"[...document.querySelectorAll({json.dumps(selector)})].map(e => e.innerText.trim())")

    def rows(self, table):
        """The rows of a table by its id: lists of texts."""
        return self.evaluate(
            f"[...document.querySelectorAll('#{table} tbody tr')].map("
            "row => [...row.cells].map(cell => cell.innerText.trim()))")

    def click(self, selector):
        """A real press of the mouse in the middle of the element."""
        x, y = self.evaluate(
            f"(() => {{ const e = document.querySelector({json.dumps(selector)});"
            "e.scrollIntoView({block: 'center'}); const b = e.getBoundingClientRect();"
            "return [b.x + b.width / 2, b.y + b.height / 2]; })()")
        self.press(x, y)

    def press(self, x, y):
        for kind in ("mouseMoved", "mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left",
                      clickCount=int(kind != "mouseMoved"))

    def screenshot(self, path, width=1400, height=900):
        import base64

        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height,
                  deviceScaleFactor=1, mobile=False)
        time.sleep(0.5)  # charts follow the size in a frame of their own
        data = self.call("Page.captureScreenshot", format="png")["data"]
        with open(path, "wb") as file:
            file.write(base64.b64decode(data))
