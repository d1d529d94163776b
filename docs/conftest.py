"""Leave out what is no page: settings, scripts of the gallery, and what a build of the documentation writes."""

collect_ignore = ["conf.py", "reference.py", "links.py", "notebooks.py", "examples", "api", "auto_examples"]
