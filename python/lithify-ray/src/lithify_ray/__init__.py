"""Workers of lithify on a Ray cluster.

Nothing is imported here: the keeper of a worker runs on this package without Ray.
"""

__version__ = "0.1.0"
