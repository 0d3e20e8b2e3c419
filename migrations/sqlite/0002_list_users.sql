-- Each index ends in the id by itself, as every index of a table with an integer key does.
CREATE INDEX users_by_name ON users (name_lower);
CREATE INDEX users_by_created_at ON users (created_at);
CREATE INDEX users_by_updated_at ON users (updated_at);

-- What is true of all users at once: a number that grows with each change, and how many there are.
-- Triggers keep it, so that it is right whoever writes.
CREATE TABLE users_summary (
  singleton INTEGER CONSTRAINT users_summary_primary_key PRIMARY KEY,
  revision INTEGER NOT NULL,
  user_count INTEGER NOT NULL,
  CONSTRAINT users_summary_singleton CHECK (singleton = 1)
) STRICT;

INSERT INTO users_summary (singleton, revision, user_count) SELECT 1, 1, count(*) FROM users;

CREATE TRIGGER users_inserted AFTER INSERT ON users BEGIN
  UPDATE users_summary SET revision = revision + 1, user_count = user_count + 1 WHERE singleton = 1;
END;

CREATE TRIGGER users_updated AFTER UPDATE ON users BEGIN
  UPDATE users_summary SET revision = revision + 1 WHERE singleton = 1;
END;

CREATE TRIGGER users_deleted AFTER DELETE ON users BEGIN
  UPDATE users_summary SET revision = revision + 1, user_count = user_count - 1 WHERE singleton = 1;
END;

-- Random keys, made by the first process that finds them missing.
CREATE TABLE signing_keys (
  name TEXT CONSTRAINT signing_keys_primary_key PRIMARY KEY,
  key BLOB NOT NULL,
  CONSTRAINT signing_keys_length CHECK (length(key) = 32)
) STRICT, WITHOUT ROWID;
