"""Support Vector Regularization in other people's trainers."""
