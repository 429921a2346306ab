"""Readers of tables: from a file to named columns, or a refusal that says why; no JAX."""
