"""Exact-answer hunting: networks whose answer rationals give, asked of netproof by every method, and judged."""
