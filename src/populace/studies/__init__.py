"""Simulation studies: public or invented populations, sampled and estimated again and again with rehearsal noise."""
