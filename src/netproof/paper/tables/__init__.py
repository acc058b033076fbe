"""The tables and figures of the paper that many runs are needed for, computed again."""
