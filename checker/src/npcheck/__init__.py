"""An independent checker of proofs about neural networks."""
