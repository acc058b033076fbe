"""Linear bounds on the graph: input sets, intervals, forms carried back by lines."""
