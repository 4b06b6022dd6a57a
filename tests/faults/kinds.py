"""Which calls of the system can fail, in the order of shim.c, and how."""

from __future__ import annotations

KINDS = ("write", "fsync", "rename", "mkdir", "link", "create")
MODES = {"once": 0, "from then on": 1, "killed": 2, "terminated": 3}
