"""History of the schema: one file per revision in `versions`, numbered 0001, 0002, ..."""
