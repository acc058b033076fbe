"""VNN-LIB 2.0: typed tensors of one or several networks, and assertions on them, by the `vnnlib` package."""
