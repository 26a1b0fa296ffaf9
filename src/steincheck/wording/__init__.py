"""Every sentence that a user reads: one module per room."""
