"""What runs a model: families, their weights on disk, the ladder, one run, its files."""
