"""Two files side by side, real and synthetic rows: scores and a report for internal use."""
