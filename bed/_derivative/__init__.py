"""Derivatives of the decomposition as mathematics, for any array namespace."""
