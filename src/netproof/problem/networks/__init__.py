"""The networks that a query declares: what it says of them, and which models they are."""
