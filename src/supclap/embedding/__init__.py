"""From a model and a table to vectors that are kept: features of frozen towers, folders of embeddings."""
