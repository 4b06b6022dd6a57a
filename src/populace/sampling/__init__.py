"""From a model to rows."""
