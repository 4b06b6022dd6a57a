"""An invented population and a survey of it."""
