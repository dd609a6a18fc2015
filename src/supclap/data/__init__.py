"""From any table, folder or corpus to clips and batches."""
