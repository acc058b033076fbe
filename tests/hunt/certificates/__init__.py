"""Damaged certificates, models and specifications, offered to npcheck: nothing false may be accepted."""
