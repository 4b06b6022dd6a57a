"""The mark of everything that is computed from rows without protection."""

INTERNAL = (
    "INTERNAL: computed from rows without protection. Do not publish it; keep it out of release folders."
)
