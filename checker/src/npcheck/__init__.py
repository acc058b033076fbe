"""npcheck: an independent checker of proofs about neural networks. It imports numpy and the standard library alone."""

__version__ = "0.2.0"
