"""Tables of entries: which runs stand where, and beside which published rows."""
