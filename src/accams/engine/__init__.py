"""Where the passes over the data run: one contract, several places."""
