"""`topdown`: tables of every unit of a geography, from the whole to the smallest, as integers that add up."""
