"""`make fuzz`: atheris searches for inputs with which a parser breaks its contract.

    python tests/fuzz/run_fuzzers.py [--seconds N] [--keep] [TARGET …]

The targets run one after the other, each in a process of its own. A target starts from the stored corpus and from the
inputs that earlier runs found (`~/.cache/hearsay/fuzz`). The first failure ends the program with exit code 1 and the
path of the input. With `--keep`, the smallest inputs that together reach all code reached so far become the stored
corpus.

Compiled decoders run uncompiled here, so that atheris sees their branches and a read outside an array is an error.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

from fuzz_targets import TARGETS
from kept_corpus import stored_inputs

CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "hearsay" / "fuzz"
MAX_BYTES = 4096
ONE, SMALLEST = (Path(__file__).with_name(name) for name in ("fuzz_one.py", "keep_smallest.py"))
ENVIRONMENT = {**os.environ, "NUMBA_DISABLE_JIT": "1", "PYTHONWARNINGS": "ignore"}


def main() -> int:
    parser = argparse.ArgumentParser(description="Search for inputs with which a parser breaks its contract.")
    parser.add_argument("--seconds", type=int, default=10, help="time of each target [10]")
    parser.add_argument("--keep", action="store_true", help="renew the stored corpus")
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=f"of {', '.join(TARGETS)} [all]")
    flags = parser.parse_args()
    unknown = set(flags.targets) - set(TARGETS)
    if unknown:
        parser.error(f"no target {', '.join(sorted(unknown))}; there are {', '.join(TARGETS)}")
    for name in flags.targets or TARGETS:
        if not fuzz(name, flags.seconds):
            return 1
        if flags.keep:
            keep_smallest(name)
    return 0


def fuzz(name: str, seconds: int) -> bool:
    """Fuzz a target for some seconds; return False if it failed."""
    folder = CACHE / name
    folder.mkdir(parents=True, exist_ok=True)
    for data in stored_inputs(name):
        (folder / hashlib.sha1(data).hexdigest()).write_bytes(data)
    crashes = CACHE / f"failed-{name}-"
    done = run(name, f"-max_total_time={seconds}", f"-artifact_prefix={crashes}", str(folder))
    lines = done.stderr.splitlines()
    progress = [line for line in lines if line.startswith("#") and "cov:" in line]
    print(f"{name:16} {progress[-1] if progress else 'nothing done'}", flush=True)
    if done.returncode:
        print(done.stdout + "\n".join(lines[-60:]), file=sys.stderr)
        print(f"\n{name} failed; the input is the file named above", file=sys.stderr)
    return not done.returncode


def keep_smallest(name: str) -> None:
    """Replace the stored corpus by the smallest inputs that together make all steps made so far (`steps_of`)."""
    subprocess.run([sys.executable, str(SMALLEST), name, str(CACHE / name)], check=True, env=ENVIRONMENT)
    shutil.rmtree(CACHE / name)


def run(name: str, *flags: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ONE), name, f"-max_len={MAX_BYTES}", "-timeout=20", "-rss_limit_mb=2048", *flags]
    return subprocess.run(command, capture_output=True, text=True, errors="replace", env=ENVIRONMENT)


if __name__ == "__main__":
    sys.exit(main())
