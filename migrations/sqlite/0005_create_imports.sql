-- How far the import of a file has come, kept together with the users that it brought, so that an interrupted one
-- goes on where it ended. The hash is SHA-256 of the records so far, by which the file is known again.
CREATE TABLE imports (
  source TEXT CONSTRAINT imports_primary_key PRIMARY KEY,
  record_count INTEGER NOT NULL,
  records_hash BLOB NOT NULL,
  rejects_bytes INTEGER NOT NULL,
  created_count INTEGER NOT NULL,
  updated_count INTEGER NOT NULL,
  unchanged_count INTEGER NOT NULL,
  skipped_count INTEGER NOT NULL,
  refused_count INTEGER NOT NULL,
  updated_at TEXT NOT NULL,
  CONSTRAINT imports_records_hash CHECK (length(records_hash) = 32)
) STRICT, WITHOUT ROWID;
