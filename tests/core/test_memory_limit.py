"""The memory of a process is the smallest of what machine, control groups and its own limits leave it."""

from __future__ import annotations

import resource
from pathlib import Path

import pytest

from populace.core import memory_limit as module
from populace.core.errors import UsageError
from populace.private import capacity as room

GIB = 2**30


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def process(folder: Path, *, groups: str, mounts: list[tuple[str, str, str]]) -> Path:
    """Return a folder like /proc/self: its groups, and mounts as (type, root, folder)."""
    options = {"cgroup": "rw,memory", "cgroup2": "rw,nsdelegate"}
    lines = [
        f"{number} 23 0:{number} {root} {folder / where} rw,relatime shared:9 - {kind} {kind} {options[kind]}"
        for number, (kind, root, where) in enumerate(mounts, start=30)
    ]
    write(folder / "proc" / "cgroup", groups)
    write(folder / "proc" / "mountinfo", "\n".join(["1 1 8:1 / / rw - ext4 /dev/sda rw", *lines]) + "\n")
    return folder / "proc"


@pytest.mark.parametrize(
    ("limits", "smallest"),
    [
        ({"a/b": "max", "a": "1073741824", "": "max"}, GIB),
        ({"a/b": "536870912", "a": "1073741824"}, GIB // 2),
        ({"a/b": "max", "a": "max"}, None),
        ({}, None),
    ],
)
def test_version_two_counts_the_group_and_those_above(tmp_path: Path, limits, smallest) -> None:
    proc = process(tmp_path, groups="0::/a/b\n", mounts=[("cgroup2", "/", "unified")])
    for group, limit in limits.items():
        write(tmp_path / "unified" / group / "memory.max", limit + "\n")
    assert min(module._group_limits(proc), default=None) == smallest


def test_version_one_counts_the_group_of_the_memory_controller(tmp_path: Path) -> None:
    proc = process(
        tmp_path,
        groups="5:cpu,cpuacct:/x\n4:hugetlb,memory:/docker/one\n0::/\n",
        mounts=[("cgroup", "/", "memory"), ("cgroup2", "/", "unified")],
    )
    write(tmp_path / "memory" / "docker" / "one" / "memory.limit_in_bytes", f"{2 * GIB}\n")
    write(tmp_path / "memory" / "docker" / "memory.limit_in_bytes", f"{3 * GIB}\n")
    write(tmp_path / "memory" / "memory.limit_in_bytes", f"{2**63 - 4096}\n")
    write(tmp_path / "memory" / "x" / "memory.limit_in_bytes", "1\n")
    assert min(module._group_limits(proc)) == 2 * GIB


@pytest.mark.parametrize(
    ("group", "root"), [("/docker/one", "/docker/one"), ("/docker/one", "/other"), ("/../..", "/")]
)
def test_a_container_that_shows_its_group_as_the_root(tmp_path: Path, group: str, root: str) -> None:
    proc = process(tmp_path, groups=f"4:memory:{group}\n", mounts=[("cgroup", root, "memory")])
    write(tmp_path / "memory" / "memory.limit_in_bytes", f"{GIB}\n")
    write(tmp_path / "memory.limit_in_bytes", "1\n")
    assert list(module._group_limits(proc)) == [GIB]


def test_without_control_groups_the_machine_counts(tmp_path: Path) -> None:
    assert list(module._group_limits(tmp_path / "none")) == []


@pytest.mark.parametrize("kind", [resource.RLIMIT_AS, resource.RLIMIT_DATA])
def test_the_limits_of_the_process_count(monkeypatch: pytest.MonkeyPatch, kind: int) -> None:
    free = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
    monkeypatch.setattr(resource, "getrlimit", lambda each: (12345, free[1]) if each == kind else free)
    assert room.memory_limit() == 12345


def test_the_smallest_of_all_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_machine_memory", lambda: 300)
    monkeypatch.setattr(module, "process_limits", lambda: iter([200]))
    monkeypatch.setattr(module, "_group_limits", lambda _: iter([100]))
    assert module.memory_limit() == 100


def test_a_chosen_limit_holds_inside_and_ends_after() -> None:
    there = module.memory_limit()
    with module.limit_memory(2**20):
        assert module.memory_limit() == 2**20
        with module.limit_memory(None):
            assert module.memory_limit() == 2**20
    assert module.memory_limit() == there


@pytest.mark.parametrize("words", ["", "0", "4GB", "-1GiB", "lots", "1e9", "4 GiBs"])
def test_an_amount_of_memory_is_refused(words: str) -> None:
    with pytest.raises(UsageError, match="no amount of memory"):
        module.parse_memory(words)
