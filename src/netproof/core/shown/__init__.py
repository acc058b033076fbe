"""How a verdict shows itself: in one line, and in a notebook."""
