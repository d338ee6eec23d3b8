"""The studies behind the documentation's claims: each is one command, and results/ keeps its raw scores."""
