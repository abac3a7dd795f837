"""`python -m hearsay` is `hearsay`."""

from hearsay.cli.main import main

main()
