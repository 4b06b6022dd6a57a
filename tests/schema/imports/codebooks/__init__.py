"""Tests of codebooks and questionnaires of others."""
