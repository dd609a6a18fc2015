"""A page in real Chromium, over DevTools' pipe: what a reader would see, hear and be asked to load.

No driver is needed beside the browser itself: commands go in at file 3 and answers come out at file 4.
"""

import base64
import contextlib
import json
import os
import shutil
import subprocess
import time
from pathlib import Path

import pytest

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
SCREENSHOTS = Path(os.environ.get("SUPCLAP_SCREENSHOTS", Path(__file__).parents[1] / "screenshots"))
needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium: apt-get install -y chromium")
QUIET = (
    "--headless --no-sandbox --disable-gpu --no-first-run --disable-background-networking --disable-component-update "
    "--disable-sync --disable-dev-shm-usage --remote-debugging-pipe"
).split()
PATIENCE = 120.0  # seconds: a busy machine is no failure

FINDINGS = """
(async () => {
  const wide = document.documentElement.clientWidth, outside = [];
  const scrolls = e => { for (e = e.parentElement; e && e !== document.body; e = e.parentElement)
    if (['auto', 'scroll', 'hidden'].includes(getComputedStyle(e).overflowX)) return true; return false };
  for (const e of document.body.querySelectorAll('*')) {
    const r = e.getBoundingClientRect();
    if (r.width && (r.right > wide + 1 || r.left < -1) && !e.closest('svg svg, svg *') && !scrolls(e))
      outside.push(e.tagName + ' ' + Math.round(r.right) + ': ' + e.textContent.slice(0, 60));
  }
  const heard = await Promise.all([...document.querySelectorAll('audio')].map(a => new Promise(done => {
    a.addEventListener('canplay', () => done(a.duration)); a.addEventListener('error', () => done(0));
    a.preload = 'auto'; a.load(); })));
  const seen = [...document.querySelectorAll('img')].map(i => i.complete ? i.naturalWidth : 0);
  const letters = [...document.querySelectorAll('svg text')].map(t => {
    const m = t.getScreenCTM(); return parseFloat(getComputedStyle(t).fontSize) * Math.sqrt(m.a * m.d - m.b * m.c) });
  return JSON.stringify({width: wide, page: document.documentElement.scrollWidth, outside, heard, seen,
    smallest: letters.length ? Math.min(...letters) : null, height: document.documentElement.scrollHeight});
})()
"""


class Browser:
    """One Chromium with one page."""

    def __init__(self, folder):
        read_in, self._in = os.pipe()
        self._out, write_out = os.pipe()
        command = [str(CHROMIUM), *QUIET, f"--user-data-dir={folder}", "about:blank"]
        shell = ["bash", "-c", f'exec "$@" 3<&{read_in} 4>&{write_out}', "bash", *command]
        self.process = subprocess.Popen(
            shell, pass_fds=(read_in, write_out), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        os.close(read_in)
        os.close(write_out)
        self.number, self.held, self.events, self.session = 0, b"", [], None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for room in ("Page", "Network", "Runtime", "Log"):
            self.call(f"{room}.enable")

    def call(self, method, **params):
        """A command and its answer; what happens meanwhile is kept in ``events``."""
        self.number += 1
        message = {"id": self.number, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        os.write(self._in, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self.number:
                assert "error" not in answer, (method, answer["error"])
                return answer["result"]
            self.events.append(answer)

    def wait(self, method):
        """Until an event comes, or has come."""
        while not any(event.get("method") == method for event in self.events):
            self.events.append(self._next())

    def _next(self):
        ends = time.monotonic() + PATIENCE
        while b"\0" not in self.held:
            part = os.read(self._out, 1 << 20)
            assert part, f"Chromium ended ({self.process.poll()})"
            assert time.monotonic() < ends, "Chromium does not answer"
            self.held += part
        message, _, self.held = self.held.partition(b"\0")
        return json.loads(message)

    def close(self):
        """End it."""
        with contextlib.suppress(OSError, AssertionError):
            self.call("Browser.close")
        self.process.wait(30)
        os.close(self._in)
        os.close(self._out)


def open_page(path, folder, *, width, name=None):
    """What a page at this width holds, asks for and complains of; with a name, its screenshot is kept."""
    browser = Browser(folder)
    try:
        phone = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600}
        browser.call("Emulation.setDeviceMetricsOverride", **phone)
        browser.events.clear()
        browser.call("Page.navigate", url=Path(path).absolute().as_uri())
        browser.wait("Page.loadEventFired")
        result = browser.call("Runtime.evaluate", expression=FINDINGS, awaitPromise=True, returnByValue=True)["result"]
        found = json.loads(result["value"])
        found["complaints"] = _complaints(browser.events)
        found["asked"] = _asked(browser.events)
        if name is not None:
            _keep(browser, f"{name}-{width}", width, found["height"])
        return found
    finally:
        browser.close()


def _complaints(events):
    kinds = {"Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded", "Network.loadingFailed"}
    return [event for event in events if event.get("method") in kinds]


def _asked(events):
    """Addresses outside the page that were really asked; what its own policy stopped was not."""
    stopped = {e["params"]["requestId"] for e in events if e.get("params", {}).get("blockedReason") == "csp"}
    sent = [e["params"] for e in events if e.get("method") == "Network.requestWillBeSent"]
    urls = [one["request"]["url"] for one in sent if one["requestId"] not in stopped]
    return [url for url in urls if not url.startswith(("file:", "data:"))]


def _keep(browser, name, width, height):
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    # As tall as the page: players that come into view are drawn a moment later.
    browser.call("Emulation.setDeviceMetricsOverride", width=width, height=min(height, 12000), deviceScaleFactor=1,
                 mobile=width < 600)  # fmt: skip
    browser.call("Runtime.evaluate", expression="new Promise(done => setTimeout(done, 800))", awaitPromise=True)
    clip = {"x": 0, "y": 0, "width": width, "height": min(height, 12000), "scale": 1}
    shot = browser.call("Page.captureScreenshot", format="png", clip=clip)
    (SCREENSHOTS / f"{name}.png").write_bytes(base64.b64decode(shot["data"]))
    paper = browser.call("Page.printToPDF", printBackground=True)
    (SCREENSHOTS / f"{name}.pdf").write_bytes(base64.b64decode(paper["data"]))


def check_page(path, folder, name):
    """A report on a phone and on a desk: nothing sticks out, nothing is loaded, nothing complains, all can be heard."""
    for width in (390, 1280):
        found = open_page(path, folder / str(width), width=width, name=name)
        assert found["outside"] == [] and found["page"] <= found["width"] <= width, found["outside"][:5]
        assert found["complaints"] == []
        assert found["asked"] == []
        assert found["heard"] and all(seconds and seconds > 0.1 for seconds in found["heard"]), found["heard"]
        assert found["seen"] and all(found["seen"]), "a picture does not show"
        assert found["smallest"] is None or found["smallest"] >= 7.5, "letters in a figure are too small to read"
    return found
