"""Certificates: what a search proved, written so that `npcheck` can check it alone (docs/certificate.md)."""
