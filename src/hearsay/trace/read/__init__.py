"""From the files of a run to rows: reading, checking, comparing, showing."""
