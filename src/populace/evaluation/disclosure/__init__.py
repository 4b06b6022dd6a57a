"""What a table discloses: anonymity of its rows, and attacks on them with a control."""
