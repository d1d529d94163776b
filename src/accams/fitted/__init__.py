"""The fitted model: `Model`, the parts it is made of, and its files."""
