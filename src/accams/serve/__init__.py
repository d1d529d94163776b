"""The HTTP service: one or several model files behind a JSON API, and the page that explores them."""
