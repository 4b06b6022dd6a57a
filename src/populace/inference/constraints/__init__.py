"""What a model must keep: rules, structural zeros, public totals, conditions."""
