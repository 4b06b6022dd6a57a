"""Tests of what data files declare of themselves."""
