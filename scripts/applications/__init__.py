"""The applications for which batches of small matrices are decomposed in training."""
