"""Files and folders of a run: whole or not there, known by a marker and a manifest."""
