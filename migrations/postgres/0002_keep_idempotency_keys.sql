-- Which Idempotency-Key created which user, and the answer that was given: the user as it was then.
-- Deleting a user deletes the answer and leaves the key used.
CREATE TABLE idempotency_keys (
  key_hash bytea CONSTRAINT idempotency_keys_primary_key PRIMARY KEY,
  user_id bigint NOT NULL,
  fingerprint text,
  user_version text,
  user_json text,
  -- Milliseconds since the epoch.
  expires_at bigint NOT NULL,
  CONSTRAINT idempotency_keys_hash CHECK (length(key_hash) = 32)
);

CREATE INDEX idempotency_keys_by_user ON idempotency_keys (user_id);
CREATE INDEX idempotency_keys_by_expiry ON idempotency_keys (expires_at);

CREATE FUNCTION forget_answers_of_deleted_users() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
  UPDATE idempotency_keys SET fingerprint = NULL, user_version = NULL, user_json = NULL
  FROM deleted WHERE user_id = deleted.id;
  RETURN NULL;
END $$;

CREATE TRIGGER users_deleted_with_answers AFTER DELETE ON users
  REFERENCING OLD TABLE AS deleted FOR EACH STATEMENT EXECUTE FUNCTION forget_answers_of_deleted_users();
