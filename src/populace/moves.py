"""The loop that fits rows to tables by moving single cells: plain Python, which `kernels.py` compiles as it stands.

It takes its structure as data, so that nothing is compiled for a particular set of tables, and runs on lists as well
as on arrays: the same lines are the compiled loop and the path of small jobs, which never import Numba.
"""

from __future__ import annotations

from typing import Any, NamedTuple

# Lists or arrays, of whole numbers and of floats.
Ints = Any
Floats = Any

# A place is told by six numbers: its own column, where its table begins, and two other columns with their strides.
PLACE = 6


class Plan(NamedTuple):
    """Where everything lies, in flat sequences of numbers.

    A table over k columns is held k times, each time with another of them as its last axis: a place. Table t has the
    places `tables[t]` … `tables[t + 1] − 1`, and `ends` lists the places whose own column, the last axis, is a:
    `starts[a]` … `starts[a + 1] − 1`. Rules are read through classes: `members` lists the columns of a rule with their
    strides, `rules` where that begins for every rule, `corners` where its table begins in `allowed`, and `guards`
    the rules of every column, from `watched[a]` on.
    """

    sizes: Ints
    places: Ints
    table_of: Ints
    tables: Ints
    weights: Floats
    starts: Ints
    ends: Ints
    class_starts: Ints
    classes: Ints
    allowed: Ints
    corners: Ints
    rules: Ints
    members: Ints
    watched: Ints
    guards: Ints


def sweep(
    codes: Ints,
    deficits: Floats,
    plan: Plan,
    bars: Floats,
    slope: float,
    leaving: Floats,
    entering: Floats,
    moved: Ints,
) -> None:
    """Visit the rows in order, and give a cell another code where that brings the tables nearer to their targets.

    With a deficit d (target less rows) in a cell of a table, one row more costs slope · (1 − 2d) and one row less
    slope · (1 + 2d), cut to −1 … 1 and times the table's weight. A column is looked at where leaving its code costs
    less than the column's bar; it moves to the cheapest code that no rule forbids, if leaving and entering together
    cost less than nothing. `leaving` (per column) and `entering` (per code) are room to work in; `moved` counts the
    moves of every column.
    """
    sizes, places, tables, weights = plan.sizes, plan.places, plan.tables, plan.weights
    columns = len(sizes)
    for number in range(len(codes)):
        row = codes[number]
        begin = 0
        while begin < columns:
            for column in range(columns):
                leaving[column] = 0.0
            for table in range(len(weights)):
                at = PLACE * tables[table]
                cell = places[at + 1] + row[places[at]]
                cell += places[at + 3] * row[places[at + 2]] + places[at + 5] * row[places[at + 4]]
                cost = weights[table] * min(1.0, max(-1.0, slope * (1.0 + 2.0 * deficits[cell])))
                for place in range(tables[table], tables[table + 1]):
                    leaving[places[PLACE * place]] += cost
            # A move changes what leaving costs in the other columns, so the row is then looked at anew from there.
            resume = columns
            for column in range(begin, columns):
                if leaving[column] >= bars[column]:
                    continue
                size = sizes[column]
                for code in range(size):
                    entering[code] = leaving[column]
                for end in range(plan.starts[column], plan.starts[column + 1]):
                    place = plan.ends[end]
                    weight = weights[plan.table_of[place]]
                    at = PLACE * place
                    cell = places[at + 1]
                    cell += places[at + 3] * row[places[at + 2]] + places[at + 5] * row[places[at + 4]]
                    for code in range(size):
                        cost = slope * (1.0 - 2.0 * deficits[cell + code])
                        entering[code] += weight * min(1.0, max(-1.0, cost))
                held = row[column]
                entering[held] = 0.0
                chosen = held
                searching = True
                while searching:
                    chosen = held
                    for code in range(size):
                        if entering[code] < entering[chosen]:
                            chosen = code
                    searching = False
                    if entering[chosen] > -1e-6:
                        chosen = held
                    else:
                        for guard in range(plan.watched[column], plan.watched[column + 1]):
                            rule = plan.guards[guard]
                            cell = plan.corners[rule]
                            for member in range(plan.rules[rule], plan.rules[rule + 1]):
                                other = plan.members[2 * member]
                                code = chosen if other == column else row[other]
                                cell += (
                                    plan.members[2 * member + 1]
                                    * plan.classes[plan.class_starts[other] + code]
                                )
                            if plan.allowed[cell] == 0:
                                searching = True
                    if searching:
                        entering[chosen] = 0.0
                if chosen == held:
                    continue
                for end in range(plan.starts[column], plan.starts[column + 1]):
                    table = plan.table_of[plan.ends[end]]
                    for place in range(tables[table], tables[table + 1]):
                        at = PLACE * place
                        cell = places[at + 1] + row[places[at]]
                        cell += places[at + 3] * row[places[at + 2]] + places[at + 5] * row[places[at + 4]]
                        stride = places[at + 3] if places[at + 2] == column else places[at + 5]
                        stride = 1 if places[at] == column else stride
                        deficits[cell] += 1.0
                        deficits[cell + stride * (chosen - held)] -= 1.0
                row[column] = chosen
                moved[column] += 1
                resume = column + 1
                break
            begin = resume
