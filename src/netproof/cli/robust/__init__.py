"""`netproof robust`: one image within a radius."""
