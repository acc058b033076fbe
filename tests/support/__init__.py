"""Oracles and generators that tests share; nothing here is a test."""
