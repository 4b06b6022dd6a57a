"""How far one unit can move a survey statistic: bounds that the barrier and the questions share."""
