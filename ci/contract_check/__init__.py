"""One check that the header, its tags, the spec, the tables, the version script, freeze.c and the suite agree."""
