"""The public functions: what joins the private side and the post-processing."""
