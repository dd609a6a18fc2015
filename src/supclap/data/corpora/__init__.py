"""Public corpora, as their owners ship them."""
