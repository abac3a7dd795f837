"""`hearsay node --json` as a process that tests control."""

from __future__ import annotations

import json
import signal
import subprocess

from commands import Process, started

QUICK = ("--set", "first_heartbeat_ms=10", "--set", "heartbeat_interval_ms=100")
RUNNING: list[Process] = []
"""All started processes, so that a fixture can kill those that a failed test leaves."""


class Running:
    """A node with --json in its own process."""

    def __init__(self, *arguments, quick=QUICK):
        pipe = subprocess.PIPE
        self.process = started("node", "--json", *quick, *arguments, stdin=pipe, stdout=pipe, stderr=pipe)
        RUNNING.append(self.process)
        self.address = self.until("listening")["address"]

    def until(self, event, **values):
        """Return the next printed event of this name that has these values."""
        for line in self.process.stdout:
            found = json.loads(line)
            if found["event"] == event and all(found[key] == value for key, value in values.items()):
                return found
        raise AssertionError(f"the node ended: {self.process.stderr.read()}")

    def type(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def interrupt(self):
        self.process.send_signal(signal.SIGINT)
        _, errors = self.process.communicate(timeout=30)
        assert "Traceback" not in errors
        return self.process.returncode
