"""Branch and bound: Algorithm 1 of the paper and its parts."""
