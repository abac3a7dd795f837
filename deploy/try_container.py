"""Run the steps of the Containerfile without a container program, start the node, and check its health.

    python deploy/try_container.py

Each stage is a folder with a tree of files, in which commands run by chroot. debootstrap makes the tree of the base
image from packages of the same release. This tree is stored in the user's cache, and made again in each period of 30
days. The trees of the stages are deleted at the end. The program needs root, debootstrap, and access to the servers
of apt and pip.
"""

from __future__ import annotations

import fcntl
import json
import os
import platform
import shlex
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic, sleep, time

ROOT = Path(__file__).resolve().parents[1]
RELEASE = "bookworm"
CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "hearsay" / "deploy"
NOT_IN_SLIM = ("usr/share/doc", "usr/share/man", "usr/share/locale", "var/cache/apt/archives", "var/lib/apt/lists")
BARE_FOR_S = 30 * 24 * 3600
DECLARED = ("VOLUME", "EXPOSE", "STOPSIGNAL", "HEALTHCHECK", "ENTRYPOINT")
"""Instructions that change no files."""
_PASSED_ON = ("PIP_", "SSL_", "REQUESTS_", "http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY")
_FILES_OF_THE_NETWORK = ("/etc/resolv.conf", "/etc/hosts", "/etc/pip.conf")
_PATIENCE_S = 30.0
_CHROOT = shutil.which("chroot", path="/usr/sbin:/usr/bin:/sbin:/bin") or "chroot"


def instructions(text: str) -> Iterator[tuple[str, str]]:
    """Yield name and arguments of each instruction."""
    for line in text.replace("\\\n", " ").splitlines():
        if line.strip() and not line.startswith("#"):
            name, _, rest = line.partition(" ")
            yield name, rest.strip()


@dataclass
class Stage:
    tree: Path
    environment: dict[str, str] = field(
        default_factory=lambda: {"PATH": "/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
    )
    folder: str = "/"
    user: str = "0"
    declared: dict[str, str] = field(default_factory=dict[str, str])

    def started(self, words: Sequence[str], more: Mapping[str, str] | None = None) -> subprocess.Popen[bytes]:
        inside = [_CHROOT, f"--userspec={self.user}:{self.user}", str(self.tree)]
        going = ["/bin/sh", "-c", 'cd "$0" && exec "$@"', self.folder, *words]
        return subprocess.Popen([*inside, *going], env={**(more or {}), **self.environment}, stdin=subprocess.DEVNULL)

    def run(self, words: Sequence[str], more: Mapping[str, str] | None = None) -> None:
        code = self.started(words, more).wait()
        if code:
            raise SystemExit(f"{shlex.join(words)}: exit {code}")

    def inside(self, path: str) -> Path:
        return self.tree / os.path.normpath(os.path.join(self.folder, path)).lstrip("/")


def copy_bare_tree(target: Path) -> None:
    """Copy the base tree from the cache to a folder; make it first if it is missing or old."""
    CACHE.mkdir(mode=0o700, parents=True, exist_ok=True)
    name = f"{RELEASE}-{platform.machine()}"
    bare, making = (CACHE / f"{name}-{part}" for part in (int(time() // BARE_FOR_S), "making"))
    with (CACHE / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not bare.is_dir():
            shutil.rmtree(making, ignore_errors=True)
            subprocess.run(["debootstrap", "--variant=minbase", RELEASE, making], check=True)
            for folder in NOT_IN_SLIM:
                shutil.rmtree(making / folder)
            making.rename(bare)
            for older in {*CACHE.glob(f"{name}-*")} - {bare}:
                shutil.rmtree(older, ignore_errors=True)
        subprocess.run(["cp", "-a", "--reflink=auto", bare, target], check=True)


def build(work: Path) -> Stage:
    """Run all steps in a folder, and return the last stage."""
    stages: dict[str, Stage] = {}
    stage = Stage(work)
    for name, rest in instructions((ROOT / "deploy" / "Containerfile").read_text(encoding="utf-8")):
        print(f"--- {name} {rest}", flush=True)
        match name:
            case "FROM":
                words = rest.split()
                assert words[0] == f"debian:{RELEASE}-slim", rest
                stage = Stage(work / f"stage-{len(stages)}")
                stages[words[-1]] = stage
                copy_bare_tree(stage.tree)
            case "RUN":
                _lend_network(stage.tree)  # again, because a step may have replaced the certificates
                stage.run(["/bin/sh", "-c", rest], _network())
            case "COPY":
                _copy(stage, stages, rest.split())
            case "WORKDIR":
                stage.folder = rest
                stage.inside(".").mkdir(parents=True, exist_ok=True)
            case "ENV":
                stage.environment |= dict(each.split("=", 1) for each in shlex.split(rest))
            case "USER":
                stage.user = rest
            case _:
                assert name in DECLARED, name
                stage.declared[name] = rest
    return stage


def _copy(stage: Stage, stages: Mapping[str, Stage], words: list[str]) -> None:
    source = ROOT
    if words[0].startswith("--from="):
        source = stages[words.pop(0).removeprefix("--from=")].tree
    *names, last = words
    target = stage.inside(last)
    if last.endswith("/"):
        target.mkdir(parents=True, exist_ok=True)
    for name in names:
        found = source / name.lstrip("/")
        if found.is_dir():
            shutil.copytree(found, target, symlinks=True, dirs_exist_ok=True)
        else:
            shutil.copy(found, target)


def _network() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name.startswith(_PASSED_ON)}


def _lend_network(tree: Path) -> None:
    """Copy files that apt and pip need for the network of this machine into the tree."""
    named = [value for value in _network().values() if value.startswith("/") and Path(value).is_file()]
    for name in (*_FILES_OF_THE_NETWORK, *named):
        if Path(name).is_file():
            (tree / name.lstrip("/")).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(name, tree / name.lstrip("/"))


def try_node(stage: Stage) -> None:
    """Start the entry point, wait until the health check succeeds, and end the node with SIGTERM.

    Exit if the node is not healthy, runs as root, or does not end by SIGTERM.
    """
    node = stage.started([*json.loads(stage.declared["ENTRYPOINT"]), "--subscribe", "chat"])
    check = json.loads(stage.declared["HEALTHCHECK"].partition("CMD ")[2])
    try:
        end = monotonic() + _PATIENCE_S
        while stage.started(check).wait():
            if node.poll() is not None or monotonic() > end:
                raise SystemExit(f"the node ended, or is not healthy after {_PATIENCE_S:.0f} s")
            sleep(0.5)
        uid = os.stat(f"/proc/{node.pid}").st_uid
        if not uid:
            raise SystemExit("the node runs as root")
        key = stage.inside("key").stat()
        assert (key.st_uid, key.st_mode & 0o777) == (uid, 0o600)
        print(f"healthy, as user {uid}", flush=True)
    finally:
        node.send_signal(signal.SIGTERM)
        code = node.wait()
    if code != 128 + signal.SIGTERM:
        raise SystemExit(f"the node ended with code {code} after SIGTERM, not with {128 + signal.SIGTERM}")


def main() -> None:
    if os.geteuid() or shutil.which("debootstrap") is None:
        raise SystemExit("try_container.py: run it as root, and install debootstrap")
    with tempfile.TemporaryDirectory(prefix="hearsay-container-") as work:
        try_node(build(Path(work)))
    print("the container file works", flush=True)


if __name__ == "__main__":
    main()
