"""Which neuron to split next."""
