"""What a release of a geography holds beside its rows: tables of all levels, noisy measurements, and areas."""
