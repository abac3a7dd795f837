"""How quickly the page of `hearsay watch` draws 1,000 nodes, and how many updates a second the data path carries.

    .venv/bin/python bench/watch_frames.py

prints a table: updates a second as a plain reader of the stream counts them, with nobody drawing; then, in headless
Chromium, the median time in which a frame is drawn, and the renderer.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from time import monotonic
from urllib.request import urlopen

SECONDS = 10.0
NODES = (100, 1000)
ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests" / "report"))

from chromium import Page, browsing, find_chromium  # noqa: E402


@contextmanager
def watched(nodes: int) -> Generator[str]:
    """The address of a simulation that runs at the clock's pace."""
    given = ["--preset", "r1", "--nodes", str(nodes), "--messages", "1000", "--pace", "1x"]
    command = [sys.executable, "-m", "hearsay", "watch", *given]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().split()[1]
        finally:
            process.terminate()


def updates(url: str) -> tuple[float, float]:
    """A second, and the median of their bytes; after the first ten, in which the network comes about."""
    sizes: list[int] = []
    with urlopen(f"{url}frames") as stream:
        began = last = monotonic()
        for line in stream:
            if line.startswith(b"data: "):
                sizes.append(len(line))
                last = monotonic()
            if len(sizes) == 10:
                began = last
            if last - began >= SECONDS and len(sizes) > 10:
                break
    return (len(sizes) - 10) / (last - began), median(sizes)


def drawn(url: str, profile: Path) -> str:
    """What the page says of its frames, and who draws."""
    program = find_chromium()
    if program is None:
        return "no Chromium is installed"
    with browsing(program, profile) as browser:
        page = Page(browser, dark=False, width=1280, calm=False)
        page.visit(url)
        page.until("document.getElementById('frames').textContent.includes('median of 120')")
        said: str = page.value("document.getElementById('frames').textContent")
        renderer = """(() => {
          const gl = document.createElement('canvas').getContext('webgl');
          const named = gl && gl.getExtension('WEBGL_debug_renderer_info');
          return named ? gl.getParameter(named.UNMASKED_RENDERER_WEBGL) : 'software (no WebGL)';
        })()"""
        return f"{said} Renderer: {page.value(renderer)}; {page.value('navigator.userAgent').split(') ')[-1]}"


def main() -> None:
    print("| nodes | updates a second | bytes of one (median) | in Chromium |\n| ---: | ---: | ---: | --- |")
    for nodes in NODES:
        profile = Path(tempfile.mkdtemp())
        with watched(nodes) as url:
            rate, size = updates(url)
            said = drawn(url, profile)
        shutil.rmtree(profile, ignore_errors=True)
        print(f"| {nodes:,} | {rate:.1f} | {size:,.0f} | {said} |", flush=True)
    print(f"\nLoad of the machine meanwhile: {json.dumps([round(each, 1) for each in os.getloadavg()])}.")


if __name__ == "__main__":
    main()
