"""Bounds of whole layers at once, by affine forms of every node that are carried forward."""
