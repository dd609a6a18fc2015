"""Sound files and arrays in, float32 samples out."""
