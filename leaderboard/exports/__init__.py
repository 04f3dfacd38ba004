"""Export of leaderboards and predictions in file formats that other programs read."""
