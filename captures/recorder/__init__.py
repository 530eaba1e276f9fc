"""Records PostgreSQL traffic of real servers, and what the servers themselves say about it.

Nothing here uses the dissector: a capture and its truth must not depend on the code that they test.
"""
