"""Methods: each declared once, with its options, and built when it is used."""
