"""Groups of columns that belong together: `groups` under `[table]` of a schema file."""

from __future__ import annotations

from collections.abc import Sequence

from populace.core.errors import SchemaError
from populace.core.marginals import Clique
from populace.schema.conditions.column_layout import ColumnLayout
from populace.schema.hints import suggest

GROUPS_HINT = 'write groups = [["SEX", "AGE"], ["STATE", "PUMA"]]'


def check_groups(groups: Sequence[Clique], *, layout: ColumnLayout) -> None:
    """Refuse groups of columns that are not counted, and columns that stand in two groups or twice in one."""
    seen: set[str] = set()
    for group in groups:
        if not group:
            raise SchemaError("one of the groups of columns is empty.", hint=GROUPS_HINT)
        for name in group:
            if name not in layout.variables:
                if name in layout.functions:
                    raise SchemaError(
                        f"column {name!r} is in a group, but follows from others.",
                        hint="group the columns it follows from",
                    )
                hint = suggest(name, layout.variables, otherwise="a split column is named by its parts")
                raise SchemaError(f"the groups name {name!r}, which no column is called.", hint=hint)
            if name in seen:
                raise SchemaError(f"column {name!r} is in the groups twice.", hint="name each column once")
            seen.add(name)


def check_partition(partition: Clique, *, least: int | None, step: int | None) -> None:
    """Refuse numbers of rows by area that cannot be, or that are given where there are no areas."""
    for key, given, lowest in (("partition_least", least, 0), ("partition_step", step, 1)):
        if given is not None and not partition:
            raise SchemaError(
                f"{key} is given without a partition.", hint='write partition = ["PUMA", "YEAR"]'
            )
        if given is not None and given < lowest:
            raise SchemaError(f"{key} is {given}.", hint=f"give a whole number of {lowest} or more")
