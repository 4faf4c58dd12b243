"""Custom calls of XLA: engines that work in XLA's memory, on its stream."""
