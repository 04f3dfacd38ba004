"""What is stored, in the formats that others read: one file a format. Pure: boards in, text out."""
