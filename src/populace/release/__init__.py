"""What is published: the bundle, its statement, report and verification."""
