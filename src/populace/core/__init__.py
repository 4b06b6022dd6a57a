"""What every room uses: errors, domains and marginals, limits, progress, files read within bounds."""
