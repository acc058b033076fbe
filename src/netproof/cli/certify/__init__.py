"""`netproof certify`: the certified accuracy of a data set."""
