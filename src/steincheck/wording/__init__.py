"""Every sentence that a user reads, except errors."""
