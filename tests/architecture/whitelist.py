"""What vulture takes for dead and is not: a line for each, with the reason."""

__getattr__  # noqa: B018, F821  Python asks the package for its public names
__dir__  # noqa: B018, F821  and for a list of them
RecordingNoise  # noqa: B018, F821  an auditor's tool: wraps a source and records it
ReplayingNoise  # noqa: B018, F821  an auditor's tool: gives a neighbour the same noise
check_sensitivities  # noqa: B018, F821  an auditor's tool: compares neighbours with what was charged
privacy_loss  # noqa: B018, F821  an auditor's tool: the exact loss of two neighbours
showwarning  # noqa: B018, F821  the standard library calls it
writeable  # noqa: B018, F821  NumPy reads it
writable  # noqa: B018, F821  the standard library calls it
