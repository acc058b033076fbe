"""The paper's tables and figures, computed again: what `netproof reproduce` runs."""
