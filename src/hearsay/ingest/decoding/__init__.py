"""Names and rows of one unit of work, from bytes of any format."""
