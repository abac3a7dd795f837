"""What is sent, and how it travels."""
