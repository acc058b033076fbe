"""The figures of the paper that no campaign is needed for: what one network or one property shows."""
