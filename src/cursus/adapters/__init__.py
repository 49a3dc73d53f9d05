"""One foreign library a file."""
