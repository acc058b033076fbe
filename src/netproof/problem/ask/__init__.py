"""Questions asked in Python: expressions of inputs and outputs, conditions on them, and the property that follows."""
