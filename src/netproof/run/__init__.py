"""One question: gather evidence, and conclude from it."""
