"""What `supclap bench` measures."""
