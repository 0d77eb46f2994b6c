"""Files of data sets: folders, shards, indexes, fingerprints, checksums, packing."""
