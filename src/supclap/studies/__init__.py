"""Methods x seeds x data, and what to draw of them."""
