"""The process that computes, watched by the one that was called."""
