"""Bounds of sub-domains on the graph, with neurons bounded jointly: the way of `lirpa`."""
