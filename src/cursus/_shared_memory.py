"""Anonymous shared memory: files without a name that live in memory."""
