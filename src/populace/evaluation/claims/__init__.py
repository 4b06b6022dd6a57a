"""Findings: which claims hold in the real and in the synthetic rows, and how likely they are to survive a release."""
