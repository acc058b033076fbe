"""Planes over the input above the neurons that read it: a tighter upper side than chords."""
