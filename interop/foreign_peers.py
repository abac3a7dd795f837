"""The peer programs of this folder: built in the user's cache, run as processes, and controlled by lines of text.

Nothing is built in the checkout.
"""

from __future__ import annotations

import asyncio
import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

HERE = Path(__file__).parent
CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "hearsay" / "interop"
FOREIGN = ("go", "rust", "js", "py")
MAX_LINE = 1 << 20
CHECKOUT = HERE.parent


class Missing(Exception):
    """A toolchain that is not installed."""


def command_of(language: str, checkout: Path = CHECKOUT) -> list[str]:
    """Return the command that runs a language's peer; build the peer if its sources have changed.

    `ours` is Hearsay's node on its own host, from `checkout`. `ours-on-py` is Hearsay's node on py-libp2p's host.
    `py-point` is a host that only helps peers to find each other. Both run in the environment of the Python peer.
    Raise `Missing` if the toolchain of a language is not installed.
    """
    if language == "ours":
        return [sys.executable, str(checkout / "interop" / "ours" / "peer.py")]
    if language == "ours-on-py":
        return [command_of("py")[0], str(HERE / "ours" / "peer.py"), "--host", "libp2p"]
    if language == "py-point":
        return [command_of("py")[0], str(HERE / "py" / "point.py")]
    tool, build, command = _RECIPES[language]
    if shutil.which(tool) is None:
        raise Missing(f"{language}: no `{tool}` on the path")
    (CACHE / language).parent.mkdir(parents=True, exist_ok=True)
    with (CACHE / f"{language}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        stamp, digest = CACHE / f"{language}.built", _digest(HERE / language)
        if not stamp.exists() or stamp.read_text() != digest:
            print(f"building the {language} peer; the first time takes minutes", file=sys.stderr, flush=True)
            build(HERE / language, CACHE / language)
            stamp.write_text(digest)
    return command(CACHE / language)


def _digest(folder: Path) -> str:
    digest = hashlib.sha256()
    for path in sorted(path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts):
        digest.update(f"{path.relative_to(folder)}\0".encode() + path.read_bytes())
    return digest.hexdigest()


def _run(*command: str, folder: Path, **environment: str) -> None:
    done = subprocess.run(command, cwd=folder, env={**os.environ, **environment}, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} failed:\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}")


def _build_go(source: Path, target: Path) -> None:
    target.mkdir(exist_ok=True)
    _run("go", "build", "-mod=readonly", "-o", str(target / "peer"), ".", folder=source)


def _build_go_router(source: Path, target: Path) -> None:
    target.mkdir(exist_ok=True)
    _run(sys.executable, "build.py", str(target), folder=source)


def _build_rust(source: Path, target: Path) -> None:
    _run("cargo", "build", "--release", "--locked", folder=source, CARGO_TARGET_DIR=str(target))


def _build_js(source: Path, target: Path) -> None:
    target.mkdir(exist_ok=True)
    for name in ("package.json", "package-lock.json", "peer.mjs"):
        shutil.copy(source / name, target / name)
    _run("npm", "ci", "--no-audit", "--no-fund", folder=target)


def _build_py(source: Path, target: Path) -> None:
    if not (target / "bin" / "python").exists():
        _run(sys.executable, "-m", "venv", str(target), folder=source)
    _run(str(target / "bin" / "pip"), "install", "--quiet", "-r", "requirements.txt", folder=source)


_Recipe = tuple[str, Callable[[Path, Path], None], Callable[[Path], list[str]]]
_RECIPES: dict[str, _Recipe] = {
    "go": ("go", _build_go, lambda target: [str(target / "peer")]),
    "differential/go": ("go", _build_go_router, lambda target: [str(target / "driver")]),
    "rust": ("cargo", _build_rust, lambda target: [str(target / "release" / "peer")]),
    "js": ("npm", _build_js, lambda target: ["node", str(target / "peer.mjs")]),
    "py": ("cc", _build_py, lambda target: [str(target / "bin" / "python"), str(HERE / "py" / "peer.py")]),
}


class PeerProcess:
    """A peer process, with the state and events that it printed. `async with` starts it and kills it."""

    def __init__(self, language: str, *flags: str, checkout: Path = CHECKOUT) -> None:
        self.language = language
        self._command = [*command_of(language, checkout), *flags]
        self._environment = {**os.environ, "PYTHONPATH": str(checkout / "src")}
        """The environment with Hearsay's sources, which other Python environments lack."""
        self.address = ""
        self.messages: list[dict[str, object]] = []
        self.count = 0
        self.topics: dict[str, int] = {}
        self.mesh: dict[str, int] = {}
        self.refusals: list[str] = []
        self.scores: dict[str, float] = {}
        """Scores that a Go peer gives its peers."""
        self.rejected = 0
        """Number of messages that a Go peer has rejected."""
        self.parts: dict[tuple[str, int], int] = {}
        """The parts that the peer has, as a bitmap, by topic and group."""
        self.tested_by: set[str] = set()
        """Peers that may have sent a message of the test extension. Go calls its callback for each RPC of such a
        peer."""
        self._news = asyncio.Event()

    async def __aenter__(self) -> PeerProcess:
        pipe = asyncio.subprocess.PIPE
        self._process = await asyncio.create_subprocess_exec(
            *self._command, stdin=pipe, stdout=pipe, stderr=pipe, limit=MAX_LINE, env=self._environment
        )
        self._errors: list[bytes] = []
        self._readers = [asyncio.ensure_future(self._read()), asyncio.ensure_future(self._read_errors())]
        await self.until(lambda: bool(self.address))
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._process.returncode is None:
            self._process.kill()
        await self._process.wait()
        await asyncio.gather(*self._readers)

    @property
    def pid(self) -> int:
        return self._process.pid

    def send_command(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(line.encode() + b"\n")

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until a condition on the peer's events is true.

        Raise AssertionError with the peer's last errors if the process ends before.
        """
        while not condition():
            if self._readers[0].done():
                raise AssertionError(f"the {self.language} peer ended:\n{b''.join(self._errors[-40:]).decode()}")
            self._news.clear()
            waiting = asyncio.ensure_future(self._news.wait())
            await asyncio.wait([waiting, self._readers[0]], return_when=asyncio.FIRST_COMPLETED)
            waiting.cancel()

    async def _read(self) -> None:
        assert self._process.stdout is not None
        async for line in self._process.stdout:
            event = json.loads(line)
            match event["event"]:
                case "listening":
                    self.address = event["address"]
                case "message":
                    self.messages.append(event)
                case "count":
                    self.count = event["count"]
                case "scores":
                    self.scores = event["scores"]
                case "rejected":
                    self.rejected += 1
                case "parts":
                    self.parts[event["topic"], event["group"]] = event["parts"]
                case "test":
                    self.tested_by.add(event["from"])
                case "refused":
                    self.refusals.append(event["reason"])
                case "peers":
                    self.topics, self.mesh = event["topics"], event.get("mesh", {})
            self._news.set()

    async def _read_errors(self) -> None:
        assert self._process.stderr is not None
        while piece := await self._process.stderr.read(1 << 16):
            self._errors.append(piece)
