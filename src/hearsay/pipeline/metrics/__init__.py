"""One module per question: DataFrames of trace rows in, DataFrames of figures out."""
