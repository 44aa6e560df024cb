"""One module for each group of control kinds, and the numbers and parameters that they share."""
