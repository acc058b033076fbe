"""The bounds of the neurons themselves: at the root, and again after splits."""
