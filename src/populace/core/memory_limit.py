"""How much memory this process may use: the machine's, what its control groups leave it, and its own limits."""

from __future__ import annotations

import os
import re
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path, PurePosixPath

from populace.core.errors import UsageError

_PROC = Path("/proc/self")
# What the limit of a control group is called in version 1 and in version 2, by the type of its file system.
_LIMITS = {"cgroup": "memory.limit_in_bytes", "cgroup2": "memory.max"}


# What the caller allows a run to use, where that is less.
_CHOSEN: ContextVar[int | None] = ContextVar("populace_memory", default=None)
_UNITS = {"": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}


def memory_limit() -> int:
    """Return the bytes that this process may use at most: the smallest of all limits that hold for it."""
    chosen = _CHOSEN.get()
    return min(
        [_machine_memory(), *process_limits(), *_group_limits(_PROC), *([] if chosen is None else [chosen])]
    )


@contextmanager
def limit_memory(size: int | None) -> Iterator[None]:
    """Let `memory_limit` return no more than so many bytes.

    >>> with limit_memory(1000):
    ...     memory_limit()
    1000
    """
    token = _CHOSEN.set(_CHOSEN.get() if size is None else size)
    try:
        yield
    finally:
        _CHOSEN.reset(token)


def parse_memory(size: int | str) -> int:
    """Return a number of bytes, written with or without a unit.

    >>> parse_memory("4GiB") == parse_memory("4096 MiB") == 2**32
    True
    """
    found = re.fullmatch(r"\s*([0-9]{1,18}(?:\.[0-9]{1,6})?)\s*([KMGT]iB|)\s*", str(size))
    if found is None or float(found[1]) <= 0:
        raise UsageError(f"{size!r} is no amount of memory.", hint="write it as 4GiB or 500MiB")
    return int(float(found[1]) * _UNITS[found[2]])


def count_cores() -> int:
    """Return on how many processors this process may run."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _machine_memory() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def process_limits() -> Iterator[int]:
    """Yield the soft limits of the process on its address space and its data."""
    for kind in (resource.RLIMIT_AS, resource.RLIMIT_DATA):
        soft, _ = resource.getrlimit(kind)
        if soft != resource.RLIM_INFINITY:
            yield soft


def _group_limits(proc: Path) -> Iterator[int]:
    """Yield the limits of the process's own control group and of all groups above it, as far as they can be seen.

    `proc` is the folder of the process, `/proc/self`. A container may show a group under another path than the
    kernel's, or only some of the groups above: then the limit of the mounted folder itself still counts.
    """
    groups = dict(_groups(proc / "cgroup"))
    for kind, root, mount in _mounts(proc / "mountinfo"):
        folder = mount / _below(groups.get(kind, "/"), root)
        for each in (folder, *folder.parents):
            yield from _limit(each / _LIMITS[kind])
            if each == mount:
                break


def _groups(path: Path) -> Iterator[tuple[str, str]]:
    """Yield the group of the process by type of file system: that of the memory controller, and the unified one."""
    for line in _lines(path):
        number, controllers, group = line.split(":", 2)
        if number == "0" and not controllers:
            yield "cgroup2", group
        elif "memory" in controllers.split(","):
            yield "cgroup", group


def _mounts(path: Path) -> Iterator[tuple[str, str, Path]]:
    """Yield type, root and mount point of each file system of control groups that can hold a limit of memory."""
    for line in _lines(path):
        head, _, tail = line.partition(" - ")
        here, there = head.split(" "), tail.split(" ")
        if there[0] == "cgroup2" or (there[0] == "cgroup" and "memory" in there[-1].split(",")):
            yield there[0], here[3], Path(here[4].replace("\\040", " "))


def _below(group: str, root: str) -> PurePosixPath:
    """Return a group's path below the root of a mount; the root itself where it lies elsewhere."""
    path = PurePosixPath(group)
    if ".." in path.parts or not path.is_relative_to(root):
        return PurePosixPath()
    return path.relative_to(root)


def _limit(path: Path) -> Iterator[int]:
    """Yield the number in a file, if there is one; version 2 writes "max" where there is no limit."""
    for line in _lines(path)[:1]:
        if line.isdecimal():
            yield int(line)


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []
