"""Random torch modules, asked about and compared with themselves."""
