-- Which Idempotency-Key made which user, and the answer that was given: the user as it was then.
-- A user who is deleted takes the answer along and leaves the key used.
CREATE TABLE idempotency_keys (
  key_hash BLOB CONSTRAINT idempotency_keys_primary_key PRIMARY KEY,
  user_id INTEGER NOT NULL,
  fingerprint TEXT,
  user_version TEXT,
  user_json TEXT,
  expires_at INTEGER NOT NULL,
  CONSTRAINT idempotency_keys_hash CHECK (length(key_hash) = 32)
) STRICT, WITHOUT ROWID;

CREATE INDEX idempotency_keys_by_user ON idempotency_keys (user_id);
CREATE INDEX idempotency_keys_by_expiry ON idempotency_keys (expires_at);

CREATE TRIGGER users_deleted_with_answers AFTER DELETE ON users BEGIN
  UPDATE idempotency_keys SET fingerprint = NULL, user_version = NULL, user_json = NULL
  WHERE user_id = OLD.id;
END;
