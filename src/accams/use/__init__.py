"""What can be done with a model once it is there: recommend, fold in, compare, explain."""
