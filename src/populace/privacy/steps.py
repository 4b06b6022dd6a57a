"""How finely numbers are told before noise meets them: in whole steps, so that noise can be exact."""

# A row adds at most this many steps to a sum: of the most that it can add, one step is a 16-millionth.
STEPS = 2**24
# The logarithm of a smooth bound is told in so many steps for each t by which it may move between neighbours.
LOG_STEPS = 2**10
# The scores of sets of bins are told in at least so many steps for what one row can move them.
SCORE_STEPS = 2**20
