"""A real headless Chromium, controlled through its debugging pipe: no package, no port, no network.

A test that uses the fixture `browser` is skipped with a warning if no Chromium is installed.
"""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import signal
import subprocess
import time
import warnings
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--disable-dev-shm-usage", "--hide-scrollbars", "--remote-debugging-pipe",
)  # fmt: skip
PATIENCE_S = 90
"""Maximum seconds until an answer or an awaited event."""


def find_chromium() -> str | None:
    return next((path for path in map(shutil.which, NAMES) if path), None)


class Browser:
    """A browser process and the connection to it. Events that arrive before an awaited answer are stored."""

    def __init__(self, program: str, profile: Path) -> None:
        to_read, self._write = os.pipe()
        self._read, to_write = os.pipe()
        # Chromium reads commands from descriptor 3 and writes answers to descriptor 4.
        script = f'exec "$0" "$@" 3<&{to_read} 4>&{to_write}'
        command = ["bash", "-c", script, program, *FLAGS, f"--user-data-dir={profile}", "about:blank"]
        self._process = subprocess.Popen(
            command,
            pass_fds=(to_read, to_write),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        os.close(to_read)
        os.close(to_write)
        self._buffer = b""
        self._number = 0
        self.events: list[dict[str, Any]] = []

    def call(self, method: str, session: str | None = None, /, **parameters: Any) -> dict[str, Any]:
        self._number += 1
        request = {"id": self._number, "method": method, "params": parameters}
        if session is not None:
            request["sessionId"] = session
        os.write(self._write, json.dumps(request).encode() + b"\0")
        end_s = time.monotonic() + PATIENCE_S
        while True:
            message = self._next(method, end_s)
            if message.get("id") == self._number:
                assert "error" not in message, (method, message["error"])
                return message["result"]
            self.events.append(message)

    @property
    def pid(self) -> int:
        """The pid of the browser's first process."""
        return self._process.pid

    def wait_for(self, method: str) -> dict[str, Any]:
        """Return the first event of a kind that is stored or arrives."""
        end_s = time.monotonic() + PATIENCE_S
        while True:
            for event in self.events:
                if event.get("method") == method:
                    return event
            self.events.append(self._next(method, end_s))

    def close(self) -> None:
        """Kill the browser: if requested to close, it would write its profile for seconds, which no test reads."""
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        os.close(self._write)
        os.close(self._read)

    def _next(self, awaited: str, end_s: float) -> dict[str, Any]:
        """Return the next message of Chromium; fail at the time `end_s`."""
        assert time.monotonic() < end_s, f"{awaited}: no answer for {PATIENCE_S} s"
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._read], [], [], max(0, end_s - time.monotonic()))
            assert ready, f"{awaited}: no answer for {PATIENCE_S} s"
            chunk = os.read(self._read, 1 << 20)
            assert chunk, "Chromium has closed its pipe"
            self._buffer += chunk
        message, _, self._buffer = self._buffer.partition(b"\0")
        return json.loads(message)


class Page:
    """An open page of a width in CSS pixels. `calm` requests reduced motion."""

    def __init__(self, browser: Browser, *, dark: bool, width: int, calm: bool) -> None:
        self._browser = browser
        self._target: str = browser.call("Target.createTarget", url="about:blank")["targetId"]
        attached = browser.call("Target.attachToTarget", targetId=self._target, flatten=True)
        self._session: str = attached["sessionId"]
        for domain in ("Page", "Network", "Runtime", "Log"):
            self._call(f"{domain}.enable")
        features = [
            {"name": "prefers-color-scheme", "value": "dark" if dark else "light"},
            {"name": "prefers-reduced-motion", "value": "reduce" if calm else "no-preference"},
        ]
        self._call("Emulation.setEmulatedMedia", features=features)
        self._size(width, 900)
        self._width = width

    def open(self, file: Path) -> None:
        self.visit(file.resolve().as_uri())

    def visit(self, address: str) -> None:
        self._browser.events.clear()
        self._call("Page.navigate", url=address)
        self._browser.wait_for("Page.loadEventFired")

    def visible_texts(self, selector: str) -> list[str]:
        """Return the texts of the visible elements that a selector matches."""
        wanted = f"[...document.querySelectorAll({json.dumps(selector)})].filter(e => e.checkVisibility())"
        found: list[str] = self.value(f"{wanted}.map(e => e.textContent)")
        return [text.replace("\N{NO-BREAK SPACE}", " ") for text in found]

    def until(self, condition: str) -> None:
        """Wait until a JavaScript expression is true; it is evaluated in every frame that the page draws."""
        look = f"const look = () => ({condition}) ? done() : requestAnimationFrame(look);"
        self.value(f"new Promise(done => {{ {look} look(); }})")

    def open_sections(self) -> None:
        """Open all sections, and wait until their charts are drawn."""
        self.value("for (const section of document.querySelectorAll('details')) section.open = true")
        self.until("[...document.querySelectorAll('figure .chart')].every(chart => chart.childElementCount)")

    def close(self) -> None:
        self._browser.call("Target.closeTarget", targetId=self._target)

    def click(self, x: float, y: float) -> None:
        for kind in ("mousePressed", "mouseReleased"):
            self._call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def value(self, expression: str) -> Any:
        """Return the value of a JavaScript expression, as JSON; await it if it is a promise."""
        answer = self._call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def press(self, key: str) -> None:
        for kind in ("keyDown", "keyUp"):
            self._call("Input.dispatchKeyEvent", type=kind, key=key)

    def block(self, addresses: str) -> None:
        """Block all later requests of the page to these addresses; `*` matches any text."""
        self._call("Network.setBlockedURLs", urls=[addresses])

    def screenshot(self, file: Path, selector: str | None = None) -> None:
        height = self.value("document.documentElement.scrollHeight")
        self._size(self._width, min(height, 16_000))
        clip: dict[str, Any] = {}
        if selector is not None:
            box = self.value(f"document.querySelector({json.dumps(selector)}).getBoundingClientRect().toJSON()")
            clip = {"clip": {**{key: box[key] for key in ("x", "y", "width", "height")}, "scale": 1}}
        shot = self._call("Page.captureScreenshot", format="png", **clip)
        file.write_bytes(base64.b64decode(shot["data"]))

    def printed(self) -> bytes:
        """Return the page as a PDF."""
        return base64.b64decode(self._call("Page.printToPDF", printBackground=True)["data"])

    def requests(self) -> list[str]:
        """Return the addresses of all requests of the page."""
        sent = [event for event in self._browser.events if event.get("method") == "Network.requestWillBeSent"]
        return [event["params"]["request"]["url"] for event in sent]

    def console_messages(self) -> list[Any]:
        """Return exceptions, calls of `console`, and entries of the log, such as violations of the page's policy."""
        wanted = ("Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded")
        return [event["params"] for event in self._browser.events if event.get("method") in wanted]

    def _size(self, width: int, height: int) -> None:
        self._call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False
        )

    def _call(self, method: str, **parameters: Any) -> dict[str, Any]:
        return self._browser.call(method, self._session, **parameters)


@pytest.fixture(scope="module")
def browser(tmp_path_factory) -> Iterator[Browser]:
    program = find_chromium()
    if program is None:
        warnings.warn(
            "NOT TESTED: pages in a browser; no Chromium is installed (apt-get install chromium)", stacklevel=1
        )
        pytest.skip("NOT TESTED IN A BROWSER: no Chromium is installed")
    profile = tmp_path_factory.mktemp("profile")
    with closing(Browser(program, profile)) as browser:
        yield browser
    shutil.rmtree(profile, ignore_errors=True)


def require_charts_that_fit(page: Page) -> None:
    """Assert that no chart is wider than its card, and that none is much narrower."""
    charts = (
        "[...document.querySelectorAll('.scrolling > .chart, .chart.on-narrow')].filter(e => e.checkVisibility())"
    )
    assert page.value(f"{charts}.length") > 0
    assert page.value(f"{charts}.filter(e => e.parentElement.scrollWidth > e.parentElement.clientWidth).length") == 0
    drawn = "e.querySelector('svg').getBoundingClientRect().width"
    assert page.value(f"{charts}.filter(e => {drawn} < 0.95 * e.parentElement.clientWidth - 40).length") == 0


def open_page(browser: Browser, file: Path, *, dark: bool = False, width: int = 1280, calm: bool = False) -> Page:
    page = Page(browser, dark=dark, width=width, calm=calm)
    page.open(file)
    return page
