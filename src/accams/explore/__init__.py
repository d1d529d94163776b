"""What a person who looks around in a model asks for, as JSON: for the service and for pages of static files."""

from accams.explore.answers import Explorer
from accams.explore.site import export

__all__ = ["Explorer", "export"]
