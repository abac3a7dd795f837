"""The command line: one file per command, thin. Heavy libraries load inside the command that needs them."""
