"""Two systems example by example, and how sure a board is; arrays in, numbers out."""
