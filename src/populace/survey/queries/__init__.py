"""What is asked of a survey, and the plan that answers it."""
