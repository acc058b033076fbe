"""Linear programs of a network: their models, the solver, and what its duals prove."""
