"""The report's plots: worked out as geometry in Python, drawn as inline SVG by templates."""
