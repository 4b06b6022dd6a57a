"""The private side: tables, engines and the barrier."""
