"""The figures of reports for papers: PNG and PDF, drawn by matplotlib (the extra `figures`)."""
