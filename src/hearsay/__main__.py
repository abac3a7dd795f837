"""`python -m hearsay` runs the command `hearsay`."""

from hearsay.cli.main import main

main()
