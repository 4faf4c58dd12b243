"""Batches in files, solved window by window; `bed.files` says what is promised."""
