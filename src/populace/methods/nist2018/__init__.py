"""`nist2018`: the method of the 2018 challenge, weighted queries in two rounds."""
