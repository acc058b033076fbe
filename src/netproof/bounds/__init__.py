"""Sound bounds: intervals, linear forms carried back, the dual function and its ascent, and what they prove."""
