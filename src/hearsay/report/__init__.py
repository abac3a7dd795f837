"""The report: result tables of analysed runs as one HTML file that needs no network.

Nothing is imported here; `write.write_report` is the way in.
"""
