"""The forms in which Relay modules were saved, read as an `ast.Module`: JSON and Relay's text."""
