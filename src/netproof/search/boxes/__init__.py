"""The search over boxes of the input, and what it leaves to the search over neurons."""
