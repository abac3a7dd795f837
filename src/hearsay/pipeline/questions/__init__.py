"""One module per question: functions from DataFrames of trace rows to DataFrames of figures."""
