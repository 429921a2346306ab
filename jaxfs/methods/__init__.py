"""A folder per paper, and `classical`; the public names are those of `jaxfs`."""
