"""The `ray` engine: rows and columns are spread over the machines of a Ray cluster."""
