"""Accounts, reservations and spends, on disk before a private row is read."""
