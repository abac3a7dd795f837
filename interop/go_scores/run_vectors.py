"""Run vectors of scores on go's scorer. The exit code is 1 if a vector fails.

python interop/go_scores/run_vectors.py FILE…
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from timed_copy import MODULE, build_program

MAIN = "if !pubsub.RunVectors(os.Args[1:]) { os.Exit(1) }"


def main() -> int:
    files = [str(Path(name).resolve()) for name in sys.argv[1:]]
    with TemporaryDirectory() as folder:
        program, version = build_program(Path(folder), MAIN, "os")
        print(f"{MODULE} {version}", flush=True)
        return subprocess.run([program, *files]).returncode


if __name__ == "__main__":
    sys.exit(main())
