"""How large, long or deep what a user gives may be: every such limit of the package, with its reason.

A test that needs a smaller limit replaces `LIMITS` in the module that reads it:
`monkeypatch.setattr(module, "LIMITS", replace(LIMITS, max_rule_cells=4))`.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The limits, by room.

    >>> LIMITS.max_column_codes == 2**32
    True
    """

    # schema

    max_column_codes: int = 2**32
    """Codes of one column: they are kept as unsigned 32-bit numbers."""
    max_decimal_bins: int = 2**16
    """Bins of a column of decimals: each edge is an exact fraction."""
    max_listed_bins: int = 2**20
    """Bins of whole numbers that are listed one by one, where no width says where they begin."""
    max_decimals: int = 15
    """Decimals of a number: a float tells no more apart."""
    max_number_length: int = 400
    """Characters of a number: exact arithmetic with millions of digits would hang, and no float is as long."""
    max_rows_per_unit: int = 10**6
    """Rows of one unit: noise grows with them, and beyond a million it hides every table."""
    max_linked_rows: int = 100
    """Rows of a linked table that belong to one unit: each is a part of a wide row, whose pairs all cost budget."""
    max_nesting: int = 100
    """Levels of lists and tables in TOML and JSON, and parts of a dotted key: reading them takes time ∝ parts³."""
    max_integer_bits: int = 1024
    """Bits of a whole number in TOML and JSON: a longer one exceeds every float."""
    max_condition_length: int = 2**16
    """Characters of a condition: a longer text is hostile or a mistake."""
    max_condition_depth: int = 40
    """Parentheses and negations within each other in a condition: no parser or printer runs out of stack."""
    max_rule_codes: int = 2**22
    """Codes of a column that a rule or a derived column looks at: each has an entry in a table."""
    max_map_cells: int = 2**22
    """Combinations of codes that a comparison of columns or a derived column is tabulated over."""
    max_rule_cells: int = 2**20
    """Combinations of classes of codes that a rule is tabulated over."""
    max_rule_search_steps: int = 2000
    """Choices that are tried to find a row that keeps all rules."""
    max_totals_cells: int = 2**22
    """Cells of a table of public totals: each is a number in memory."""
    max_units: int = 2**22
    """Smallest units of a geography: each is numbered, noised and published."""
    max_frequency: int = 2**32
    """Units that one row may stand for: sums over 2³⁰ such rows stay within 64 bits."""
    max_cell_bytes: int = 10_000
    """Bytes of a text cell: a longer one is prose, and batches stay below Arrow's 2 GiB in any encoding."""
    max_draft_values: int = 1000
    """Values that a draft from public rows lists: a longer list is no codebook."""

    # privacy

    max_pieces: int = 1000
    """Pieces of a secret partition: each needs noise of its own."""
    max_account_name: int = 200
    """Characters of an account's name: it is printed in every statement."""

    # private

    max_counted_cells: int = 2**31
    """Cells of a column or a marginal that is counted: a count and its noise take 16 bytes each."""
    max_prepared_bytes: int = 2**31
    """Bytes of exact tables that an engine keeps while the same candidates are asked about."""
    max_value_length: int = 200
    """Characters of a discovered value: a longer text is prose or an identifier, not a category."""
    max_sum_cells: int = 2**26
    """Cells of one sum over private rows: each is a noisy number."""
    max_base_bins: int = 2**20
    """Base bins of weighted counts: they are listed one by one, each with its population."""
    max_matching_places: int = 2**20
    """Places of matching columns: each is compared with every incomplete one that has too few donors at home."""
    max_donors: int = 12
    """Donors of one imputed value: means of so many are whole numbers of one fine unit that 64 bits hold."""
    max_donor_uses: int = 100
    """Uses of one donor by sums over filled rows: their noise grows with it."""

    # methods

    max_paired_columns: int = 512
    """Columns of which all pairs are scored: 130,816 pairs take minutes."""
    max_grid_cells: int = 2**21
    """Cells of the grid in which a domain is learnt: whole numbers and moments up to so many have one each."""
    max_histogram_bins: int = 2**22
    """Bins of a histogram: each is counted, drawn for, saved and shown with its interval."""
    max_marginal_cells: int = 2**24
    """Cells of a marginal that a workload names: its table of counts must be held."""
    max_query_columns: int = 4
    """Columns of a marginal of `nist2018`: a table of more has too many parts to be fitted."""
    max_public_pair_cells: int = 2**25
    """Cells of all pairs that are counted, or taken from a public table, and kept at once."""
    max_areas: int = 2**16
    """Areas of a partition over which rows are counted out: a model holds them together."""
    max_demanded_rows: int = 2**26
    """Rows that a schema may demand for all areas together, unless it allows more with max_rows."""

    max_streamed_rows: int = 10**10
    """Synthetic rows that are drawn block by block: at two microseconds a row these take hours."""

    max_hierarchy_cells: int = 2**25
    """Cells of all smallest units of a geography: each is measured, estimated, rounded and published."""

    # inference

    max_model_cells: int = 2**24
    """Cells of a model under rules: its tables must fit into memory."""
    max_dense_cells: int = 200
    """Possible cells of a geographic unit under structural zeros or groupings: work grows with their cube."""
    max_dense_bytes: int = 2**32
    """Bytes of matrices for such units: two for every different form of a subtree, and all are held."""
    max_condition_boxes: int = 256
    """Boxes into which a condition on released rows is cut: a model is asked about every one."""

    # survey

    max_control_cells: int = 100_000
    """Cells of one set of public totals: each is named in the design."""
    max_matching_cells: int = 2**12
    """Cells of matching columns: each pair of them is compared."""
    max_condition_cells: int = 2**22
    """Combinations of codes on which the condition of a subpopulation is tried out against matching cells."""
    max_query_cells: int = 2**20
    """Combinations of codes on which the condition of a query is tried out, to refuse one that no row can meet."""
    max_groups: int = 10_000
    """Groups of one query: each is a row of the estimates."""
    max_values: int = 500
    """Values whose shares are asked for together: each share depends on the noise of all."""
    max_query_sum_cells: int = 2**20
    """Cells of one sum: each is a noisy number."""
    max_weight_cells: int = 2**20
    """Cells of weights that rows are multiplied by: each is an exact number."""
    max_design_cells: int = 2**16
    """Pairs of strata and PSUs: each has a weight in every sum."""
    max_table_cells: int = 2**20
    """Cells by which a sample is counted for calibration: they are counted one by one."""
    max_joined_cells: int = 2**16
    """Cells that public totals join them to: they are raked."""
    max_table_bins: int = 2**12
    """Bins of all sets of totals together: fitting them takes a minute and half a gigabyte at most."""
    max_fitted_cells: int = 2**26
    """Joined cells times bins."""
    max_people: int = 2**50
    """People that calibrated counts count: the lattice of answers tells no more apart."""

    # release

    max_implicates: int = 100
    """Synthetic tables of one release: combining rules gain nothing from more."""
    max_replicates: int = 1000
    """Replicate weights of a survey file: each is a column."""

    # planning

    max_planned_codes: int = 2**20
    """Codes of all columns together in a plan: a simulation draws each column."""
    max_share_codes: int = 10**7
    """Codes of a column whose shares a file lists: each has a number in memory."""


LIMITS = Limits()
