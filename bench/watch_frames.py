"""Measure the updates per second of `hearsay watch`, and the time in which its page draws a frame.

    .venv/bin/python bench/watch_frames.py

The table has, for 100 and 1,000 nodes: the updates per second that a reader of the stream receives without a browser,
their median size, and the CPU time of simulation, picture and server per update. In headless Chromium, it has the CPU
time of all processes of Chromium per update, and the page's own figures with the median time of a frame.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Generator
from contextlib import closing, contextmanager
from pathlib import Path
from statistics import median
from time import monotonic
from urllib.request import urlopen

SECONDS = 10.0
NODES = (100, 1000)
ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from chromium import Browser, Page, find_chromium  # noqa: E402
from process_tree import cpu_seconds  # noqa: E402


@contextmanager
def running_watch(nodes: int) -> Generator[tuple[str, int]]:
    """Run `hearsay watch` in real time, and yield its URL and process id."""
    given = ["--preset", "r1", "--nodes", str(nodes), "--messages", "1000", "--pace", "1x"]
    command = [sys.executable, "-m", "hearsay", "watch", *given]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().split()[1], process.pid
        finally:
            process.terminate()


def measure_updates(url: str, process: int) -> tuple[float, float, float]:
    """Return updates per second, the median of their bytes, and CPU milliseconds per update.

    The first ten updates are not counted, because the network is still being built.
    """
    sizes: list[int] = []
    spent = 0.0
    with urlopen(f"{url}frames") as stream:
        began = last = monotonic()
        for line in stream:
            if line.startswith(b"data: "):
                sizes.append(len(line))
                last = monotonic()
            if len(sizes) == 10:
                began, spent = last, cpu_seconds(process)
            if last - began >= SECONDS and len(sizes) > 10:
                break
    count = len(sizes) - 10
    return count / (last - began), median(sizes), 1000 * (cpu_seconds(process) - spent) / count


def measure_page(url: str, profile: Path) -> str:
    """Open the page in Chromium; return the last cells of the row: CPU time, the page's figures, and the renderer."""
    program = find_chromium()
    if program is None:
        return "| no Chromium is installed"
    with closing(Browser(program, profile)) as browser:
        page = Page(browser, dark=False, width=1280, calm=False)
        page.visit(url)
        page.until("document.getElementById('frames').textContent.includes('median of 120')")
        began, spent = monotonic(), cpu_seconds(browser.pid)
        page.value(f"new Promise(done => setTimeout(done, {1000 * SECONDS}))")
        said: str = page.value("document.getElementById('frames').textContent")
        each = 1000 * (cpu_seconds(browser.pid) - spent) / (float(said.split()[0]) * (monotonic() - began))
        renderer = """(() => {
          const gl = document.createElement('canvas').getContext('webgl');
          const named = gl && gl.getExtension('WEBGL_debug_renderer_info');
          return named ? gl.getParameter(named.UNMASKED_RENDERER_WEBGL) : 'software (no WebGL)';
        })()"""
        browsed = page.value("navigator.userAgent").split(") ")[-1]
        return f"{each:.1f} | {said} Renderer: {page.value(renderer)}; {browsed}"


def main() -> None:
    print("| nodes | updates a second | bytes (median) | CPU ms of the server | CPU ms of Chromium | in Chromium |")
    print("| ---: | ---: | ---: | ---: | ---: | --- |")
    for nodes in NODES:
        profile = Path(tempfile.mkdtemp())
        with running_watch(nodes) as (url, process):
            rate, size, each = measure_updates(url, process)
            said = measure_page(url, profile)
        shutil.rmtree(profile, ignore_errors=True)
        print(f"| {nodes:,} | {rate:.1f} | {size:,.0f} | {each:.1f} | {said} |", flush=True)
    print(f"\nLoad of the machine meanwhile: {json.dumps([round(each, 1) for each in os.getloadavg()])}.")


if __name__ == "__main__":
    main()
