"""Sound bounds: interval, backward linear, optimised slopes, LP; and their confirmation in float64."""
