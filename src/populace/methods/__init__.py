"""The synthesizers: what each measures and how its model is fitted."""
