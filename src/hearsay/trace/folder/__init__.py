"""Files and folders of a run. A file appears whole or not at all; a marker and a manifest identify a folder."""
