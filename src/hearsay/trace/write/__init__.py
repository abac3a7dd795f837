"""Writing the files of a run from rows, in bounded memory."""
