"""From VNN-LIB files to properties."""
