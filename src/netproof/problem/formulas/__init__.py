"""Formulas over limits of linear forms, wherever they come from, and the disjuncts of a property made of them."""
