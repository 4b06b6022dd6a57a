"""The privacy statement: what was promised, what it cost, what it does not cover."""
