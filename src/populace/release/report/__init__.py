"""The report: one HTML file that opens offline."""
