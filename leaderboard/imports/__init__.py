"""What comes from elsewhere: archives of other stores, and rows that others have measured."""
