"""Forces, drift and radius of any objective."""
