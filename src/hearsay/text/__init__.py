"""Text of figures, names and settings for terminals, reports and studies."""
