"""Every call of the system fails in turn, and what is left behind is looked at."""
