"""Tasks from users' own data: files and hub data sets whose layout is detected, not declared."""
