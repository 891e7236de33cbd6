"""Files from strangers, by kind."""
