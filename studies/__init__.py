"""Studies behind the claims of the documentation: each is one command, and its raw scores are kept in results/."""
