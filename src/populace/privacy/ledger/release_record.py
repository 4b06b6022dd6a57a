"""What the ledger knows about one published folder: digests of the files that a run made."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from populace.core.errors import UsageError
from populace.privacy.accounting.spend_record import refuse_unknown_fields

_DIGEST = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseRecord:
    """One release of a run as the ledger's rows tell it.

    `manifest` is the SHA-256 of its manifest.json, `files` holds those of the other files by name, and `entry` is the
    hash of the ledger's row that books them. All are digests of what is published; none is of private rows.
    """

    manifest: str
    files: Mapping[str, str]
    entry: str

    @property
    def whole(self) -> bool:
        """Whether it is a release, and not the folder of measurements that a release starts from."""
        return "codebook.json" in self.files

    def to_json(self) -> dict[str, Any]:
        """Return the body of the event that books the release."""
        return {"manifest": self.manifest, "files": dict(self.files)}

    @classmethod
    def from_json(cls, data: Mapping[str, Any], *, entry: str) -> ReleaseRecord:
        """Return the release that the body of an event tells; anything but digests by file name is refused."""
        refuse_unknown_fields(data, known=("manifest", "files"))
        files = {str(name): check_digest(digest) for name, digest in dict(data["files"]).items()}
        return cls(manifest=check_digest(data["manifest"]), files=files, entry=entry)


def check_digest(value: object) -> str:
    """Return a SHA-256 in hexadecimal as it is, and refuse anything else."""
    if not isinstance(value, str) or not _DIGEST.fullmatch(value):
        raise UsageError(
            "a release is booked by something that is no digest.",
            hint="give the SHA-256 of each file: 64 hexadecimal digits in lower case",
        )
    return value
