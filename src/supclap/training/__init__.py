"""From a table to a trained model, safe to kill."""
