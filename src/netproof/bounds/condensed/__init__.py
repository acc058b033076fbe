"""The network condensed to its unstable neurons: how it is folded, its passes, and what they prove."""
