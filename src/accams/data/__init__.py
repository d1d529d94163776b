"""What is learned from: observations, readers, data sets, splits, ids."""
