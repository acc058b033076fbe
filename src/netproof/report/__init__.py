"""Plots, tables and a page that needs no other file, from the results of a campaign."""
