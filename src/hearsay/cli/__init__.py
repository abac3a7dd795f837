"""The command line: a module for each command. A command imports heavy libraries inside its functions."""
