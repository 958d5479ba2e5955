"""Programs of the corpus, one file per group."""
