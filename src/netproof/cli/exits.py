"""Exit codes: 0 when an answer was written, and these."""

EXIT_BUG, EXIT_USAGE, EXIT_INTERRUPTED = 1, 2, 130
EXIT_BELOW = 3  # certify: the certified accuracy is below --at-least
