"""The command line: one file per verb, data to stdout, words to stderr."""
