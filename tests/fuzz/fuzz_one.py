"""One fuzzing process of `run_fuzzers.py`: `fuzz_one.py TARGET [libFuzzer's flags and folders]`."""

import sys

import atheris

with atheris.instrument_imports(include=["hearsay"]):
    import fuzz_targets

name = sys.argv.pop(1)
atheris.Setup(sys.argv, fuzz_targets.TARGETS[name])
atheris.Fuzz()
