"""Export of leaderboards and predictions to file formats that other programs read."""
