"""The paper's tables and figures, computed again."""
