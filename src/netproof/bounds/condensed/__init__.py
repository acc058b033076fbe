"""The network condensed to its unstable neurons: its passes, the ascent over them, what they prove."""
