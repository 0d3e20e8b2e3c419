-- Keys that requests carry. Only the SHA-256 of a key is stored. Scopes have a blank between them. Times are milliseconds
-- since the epoch; a key without expires_at never expires, and one without last_used_at was never used.
CREATE TABLE api_keys (
  name text COLLATE "C" CONSTRAINT api_keys_primary_key PRIMARY KEY,
  key_hash bytea NOT NULL,
  scopes text NOT NULL,
  created_at bigint NOT NULL,
  expires_at bigint,
  last_used_at bigint,
  CONSTRAINT api_keys_hash_unique UNIQUE (key_hash),
  CONSTRAINT api_keys_hash_length CHECK (length(key_hash) = 32),
  CONSTRAINT api_keys_name_chars CHECK (length(name) BETWEEN 1 AND 64),
  CONSTRAINT api_keys_some_scopes CHECK (scopes <> '')
);

-- A random number, new with each change of the keys that is not just a use. A trigger writes it, so that every process
-- finds out, whoever makes the change. A number that only grows could repeat after a failover that lost changes.
CREATE TABLE api_key_changes (
  singleton smallint CONSTRAINT api_key_changes_primary_key PRIMARY KEY,
  mark bigint NOT NULL,
  CONSTRAINT api_key_changes_singleton CHECK (singleton = 1)
);

CREATE FUNCTION note_api_key_changes() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
  INSERT INTO api_key_changes (singleton, mark) VALUES (1, floor(random() * 281474976710656))
  ON CONFLICT (singleton) DO UPDATE SET mark = EXCLUDED.mark;
  RETURN NULL;
END $$;

CREATE TRIGGER api_keys_changed
  AFTER INSERT OR UPDATE OF name, key_hash, scopes, created_at, expires_at OR DELETE OR TRUNCATE ON api_keys
  FOR EACH STATEMENT EXECUTE FUNCTION note_api_key_changes();
