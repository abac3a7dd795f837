"""Build the driver of the Rust router: libp2p-gossipsub in virtual time, with the order of names instead of draws."""

from __future__ import annotations

import fcntl
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))
from foreign_peers import CACHE, Missing  # noqa: E402

CRATE = "libp2p-gossipsub"
STAND_INS = (
    (re.compile(r"\bweb_time::"), "crate::stand_ins::"),
    (re.compile(r"\bfutures_timer::Delay\b"), "crate::stand_ins::Delay"),
    (re.compile(r"\brand::seq::"), "crate::stand_ins::"),
)
"""Clock, timers and random choices of the crate, and their replacements."""
LAST_FIRST = re.compile(r"(shuffled(?:\[[^\]]*\])?)\.shuffle\(")
"""Two shuffles of a heartbeat, which then prunes the first peers of the list. Their replacement puts the last name
first."""
FOR_TESTS = re.compile(r"\[(?:\[test\]|dev-dependencies)[^\n]*\n(?:(?!\[)[^\n]*\n)*")
MANIFEST = """
[[bin]]
name = "driver"
path = "src/main.rs"

[dependencies.serde_json]
version = "1"

[profile.release]
opt-level = 1

[workspace]
"""


def build_driver() -> Path:
    """Build the driver in the user's cache, and return its path. Raise `Missing` if cargo is not installed."""
    if shutil.which("cargo") is None:
        raise Missing("rust: no `cargo` on the path")
    folder = CACHE / "rust-router"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        _change(_source(), folder / "crate")
        build = ["cargo", "build", "--release", "--quiet", "--target-dir", folder / "target"]
        subprocess.run(build, cwd=folder / "crate", check=True)
    return folder / "target" / "release" / "driver"


def _change(source: Path, copy: Path) -> None:
    """Copy the crate, with replacements of its clock and choices, and with the driver."""
    for path in (path for path in source.rglob("*.rs") if path.parent.name != "tests"):
        text = path.read_text(encoding="utf-8")
        for pattern, stand_in in STAND_INS:
            text = pattern.sub(stand_in, text)
        if path.name == "behaviour.rs":
            text, count = LAST_FIRST.subn(r"\1.shuffle_last_first(", text)
            assert count == 2
            text += "\npub mod driver;\n"
        elif path.name == "lib.rs":
            text += "\nmod stand_ins;\npub use behaviour::driver;\n"
        _write(copy / path.relative_to(source), text)
    _write(copy / "src" / "main.rs", "fn main() {\n    libp2p_gossipsub::driver::main();\n}\n")
    _write(copy / "src" / "behaviour" / "driver.rs", (HERE / "rust" / "driver.rs").read_text(encoding="utf-8"))
    _write(copy / "src" / "stand_ins.rs", (HERE / "rust" / "stand_ins.rs").read_text(encoding="utf-8"))
    manifest = (source / "Cargo.toml").read_text(encoding="utf-8")
    _write(copy / "Cargo.toml", FOR_TESTS.sub("", manifest) + MANIFEST)
    if not (copy / "Cargo.lock").exists():
        shutil.copy(HERE.parent / "rust" / "Cargo.lock", copy)


def _source() -> Path:
    """Return the folder of the crate, in the version that the Rust peer pins, in Cargo's own folder."""
    manifest = HERE.parent / "rust" / "Cargo.toml"
    listed = subprocess.check_output(
        ["cargo", "metadata", "--locked", "--format-version", "1", "--manifest-path", manifest], text=True
    )
    packages = json.loads(listed)["packages"]
    return Path(next(each["manifest_path"] for each in packages if each["name"] == CRATE)).parent


def _write(path: Path, text: str) -> None:
    """Write a file if its content differs, so that Cargo compiles only changed files."""
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
