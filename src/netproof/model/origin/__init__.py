"""Where a network comes from: its constants and files, and whether it was read right."""
