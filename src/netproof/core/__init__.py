"""Plain data that every layer speaks: deadlines, intervals, linear forms, verdicts."""
