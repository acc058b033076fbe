"""A first search of networks in which hinges alone are left to split."""
