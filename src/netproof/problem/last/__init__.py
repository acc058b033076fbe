"""Maps at the end of a network that a property can be asked before: softmax, increasing functions, ArgMax."""
