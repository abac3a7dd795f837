"""What the JVM starts as the daemon of its Python workers: it hands over to the one that has their imports done."""

from __future__ import annotations

import json
import os
import socket
import sys
from contextlib import suppress
from importlib import import_module

from hearsay.pipeline.spark.ready_workers import PLACE, STREAMS, TAKEN


def main() -> None:
    with suppress(OSError), socket.socket(socket.AF_UNIX) as ready:
        ready.connect(os.environ.get(PLACE, ""))
        socket.send_fds(ready, [b" "], STREAMS)
        ready.sendall(json.dumps([sys.argv, dict(os.environ)]).encode())
        ready.shutdown(socket.SHUT_WR)
        if ready.recv(1) == TAKEN:
            ready.recv(1)  # which comes when it has ended
            return
    import_module("pyspark.daemon").manager()


if __name__ == "__main__":
    main()
