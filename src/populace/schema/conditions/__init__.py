"""Conditions, rules, universes and structural zeros on codes."""
