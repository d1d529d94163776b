"""The algorithms: schedules over k x k tables that know nothing of where the data is."""
