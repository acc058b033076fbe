"""The paper beside netproof: its rivals as methods, its tables and figures as a command."""
