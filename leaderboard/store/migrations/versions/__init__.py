"""Each file here leads from one revision to the next; a released one never changes again."""
