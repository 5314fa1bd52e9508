"""The HTTP face: one table of routes (`routes`), one desk that knows the parts (`desk`)."""
