-- Keys that requests carry. Only the SHA-256 of a key is stored. Scopes have a blank between them. Times are milliseconds
-- since the epoch; a key without expires_at never expires, and one without last_used_at was never used.
CREATE TABLE api_keys (
  name TEXT CONSTRAINT api_keys_primary_key PRIMARY KEY,
  key_hash BLOB NOT NULL,
  scopes TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  expires_at INTEGER,
  last_used_at INTEGER,
  CONSTRAINT api_keys_hash_unique UNIQUE (key_hash),
  CONSTRAINT api_keys_hash_length CHECK (length(key_hash) = 32),
  CONSTRAINT api_keys_name_chars CHECK (length(name) BETWEEN 1 AND 64),
  CONSTRAINT api_keys_some_scopes CHECK (scopes <> '')
) STRICT, WITHOUT ROWID;

-- A random number, new with each change of the keys that is not just a use. Triggers write it, so that every process finds
-- out, whoever makes the change.
CREATE TABLE api_key_changes (
  singleton INTEGER CONSTRAINT api_key_changes_primary_key PRIMARY KEY,
  mark INTEGER NOT NULL,
  CONSTRAINT api_key_changes_singleton CHECK (singleton = 1)
) STRICT;

CREATE TRIGGER api_keys_inserted AFTER INSERT ON api_keys BEGIN
  INSERT INTO api_key_changes (singleton, mark) VALUES (1, abs(random() % 281474976710656))
  ON CONFLICT (singleton) DO UPDATE SET mark = excluded.mark;
END;

CREATE TRIGGER api_keys_updated AFTER UPDATE OF name, key_hash, scopes, created_at, expires_at ON api_keys BEGIN
  INSERT INTO api_key_changes (singleton, mark) VALUES (1, abs(random() % 281474976710656))
  ON CONFLICT (singleton) DO UPDATE SET mark = excluded.mark;
END;

CREATE TRIGGER api_keys_deleted AFTER DELETE ON api_keys BEGIN
  INSERT INTO api_key_changes (singleton, mark) VALUES (1, abs(random() % 281474976710656))
  ON CONFLICT (singleton) DO UPDATE SET mark = excluded.mark;
END;
