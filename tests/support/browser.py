"""Chromium without a window, driven by the DevTools protocol over a pipe: no package is needed."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
# The browser reads file 3 and writes file 4: put the pipes there and become it.
AS_3_AND_4 = (
    "import fcntl, os, sys; r, w = (fcntl.fcntl(int(n), fcntl.F_DUPFD, 10) for n in sys.argv[1:3]);"
    "os.dup2(r, 3); os.dup2(w, 4); os.execv(sys.argv[3], sys.argv[3:])"
)
RULES = (Path(__file__).parent / "accessibility.js").read_text(encoding="utf-8")
SETTLED = 20  # frames after which a page that is loaded has done what its scripts put off
# Without a window there is no mouse unless one says so, and pages ask for one: (hover), (pointer: fine).
MOUSE = ("primaryHoverType=2", "availableHoverTypes=2", "primaryPointerType=4", "availablePointerTypes=4")
PATIENCE = 60.0  # seconds for one answer
FRAME = "new Promise((done) => requestAnimationFrame(() => setTimeout(done)))"  # kept once the next frame is drawn


def find_browser() -> str | None:
    return next((path for path in map(shutil.which, NAMES) if path), None)


class Browser:
    """One tab. What a page logs as an error, or throws, is in `errors`; what it asks of a network in `requests`."""

    def __init__(self, program: str, profile: str) -> None:
        to_read, self._to = os.pipe()
        self._from, to_write = os.pipe()
        options = ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars")
        mouse = f"--blink-settings={','.join(MOUSE)}"
        more = (
            mouse,
            "--no-first-run",
            "--disable-extensions",
            "--remote-debugging-pipe",
            f"--user-data-dir={profile}",
        )
        self._process = subprocess.Popen(
            [sys.executable, "-c", AS_3_AND_4, str(to_read), str(to_write), program, *options, *more, "about:blank"],
            pass_fds=(to_read, to_write),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(to_read)
        os.close(to_write)
        self._number, self._rest, self._session = 0, b"", None
        self.errors: list[str] = []
        self.requests: list[str] = []
        self._loaded: set[str] = set()  # documents that are there, scripts run
        tab = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=tab, flatten=True)["sessionId"]
        for part in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{part}.enable")
        self.call("Page.setLifecycleEventsEnabled", enabled=True)
        self.call("Emulation.setFocusEmulationEnabled", enabled=True)

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Ask for something; what the page says meanwhile is noted."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while (answer := self._hear()).get("id") != self._number:
            self._note(answer)
        assert "error" not in answer, (method, answer["error"])
        return answer["result"]

    def _hear(self) -> dict[str, Any]:
        until = time.monotonic() + PATIENCE
        while b"\0" not in self._rest:
            ready, _, _ = select.select([self._from], [], [], max(0.0, until - time.monotonic()))
            assert ready, "the browser does not answer"
            data = os.read(self._from, 1 << 20)
            assert data, "the browser is gone"
            self._rest += data
        message, _, self._rest = self._rest.partition(b"\0")
        return json.loads(message)

    def _note(self, event: dict[str, Any]) -> None:
        kind, said = event.get("method"), event.get("params", {})
        if kind == "Page.lifecycleEvent" and said["name"] == "load":
            self._loaded.add(said["loaderId"])
        elif kind == "Runtime.exceptionThrown":
            self.errors.append(said["exceptionDetails"].get("exception", {}).get("description", "an exception"))
        elif kind == "Log.entryAdded" and said["entry"]["level"] in ("error", "warning"):
            self.errors.append(said["entry"]["text"])
        elif kind == "Runtime.consoleAPICalled" and said["type"] in ("error", "warning", "assert"):
            self.errors.append(str(said["args"]))
        elif kind == "Network.requestWillBeSent":
            url = said["request"]["url"]
            if not url.startswith("data:"):
                self.requests.append(url)

    def open(self, path: Path, anchor: str = "") -> None:
        """Load a page and wait until it is there; by way of an empty one, so that an anchor loads it again."""
        self.go("about:blank")
        self.errors.clear()
        self.requests.clear()
        self.go(path.resolve().as_uri() + anchor)

    def go(self, url: str) -> None:
        """Load a document and wait for its own load event: that of the document before may come late."""
        document = self.call("Page.navigate", url=url)["loaderId"]
        until = time.monotonic() + PATIENCE
        while document not in self._loaded:
            assert time.monotonic() < until, "the page does not load"
            self._note(self._hear())

    def until(self, expression: str, value: Any) -> None:
        """Wait until the page computes this value: what follows a key, a click or a new size may take a frame."""
        until = time.monotonic() + PATIENCE
        while (found := self.js(expression)) != value:
            assert time.monotonic() < until, (expression, found, value)
            self.js(FRAME)

    def js(self, expression: str) -> Any:
        """Return what the page computes; a promise is waited for."""
        done = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in done, done["exceptionDetails"]
        return done["result"].get("value")

    def faults(self, left_out: Collection[str] = ()) -> list[str]:
        """Return what is wrong by the rules of accessibility, but for lines that begin with one of `left_out`."""
        for _ in range(SETTLED):
            found = [line for line in self.js(RULES) if not line.startswith(tuple(left_out))]
            if not found:
                break
            self.js(FRAME)
        return found

    def look(self, width: int, height: int = 900, *, dark: bool = False) -> None:
        """Set the size of the window and the colour scheme, without anything that fades or slides."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500}
        self.call("Emulation.setDeviceMetricsOverride", **size)
        media = {"prefers-color-scheme": "dark" if dark else "light", "prefers-reduced-motion": "reduce"}
        features = [{"name": name, "value": value} for name, value in media.items()]
        self.call("Emulation.setEmulatedMedia", features=features)
        seen = "screen.width" if size["mobile"] else "innerWidth"  # of a page without a word on phones
        self.until(f"[{seen}, matchMedia('(prefers-color-scheme: dark)').matches]", [width, dark])

    def key(self, name: str) -> None:
        """Press a key, such as Tab, Enter or ArrowRight."""
        codes = {"Tab": 9, "Enter": 13, "Escape": 27, "ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40}
        text = {"text": "\r"} if name == "Enter" else {}
        for kind in ("keyDown", "keyUp"):
            pressed = {"type": kind, "key": name, "code": name, "windowsVirtualKeyCode": codes[name]}
            self.call("Input.dispatchKeyEvent", **pressed, **(text if kind == "keyDown" else {}))

    def mouse(self, kind: str, x: float, y: float) -> None:
        button = {"button": "left", "clickCount": 1} if kind != "mouseMoved" else {}
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **button)

    def picture(self, path: Path, *, whole: bool = True) -> Path:
        """Save what is seen as PNG; whole: all of the page, not only what the window shows."""
        data = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)["data"]
        path.write_bytes(base64.b64decode(data))
        return path

    def close(self) -> None:
        with contextlib.suppress(AssertionError, OSError):
            self._session = None
            self.call("Browser.close")
        self._process.terminate()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self._to)
        os.close(self._from)


@contextlib.contextmanager
def browser() -> Iterator[Browser]:
    """Start one; whoever calls has looked that there is one."""
    program = find_browser()
    assert program is not None
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        tab = Browser(program, profile)
        try:
            yield tab
        finally:
            tab.close()
