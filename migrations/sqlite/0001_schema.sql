-- The database of the service on SQLite. Triggers keep what follows from the users, so that it is right whoever writes.

-- AUTOINCREMENT never gives out the id of a deleted user again. Times are text such as 2026-01-31T12:00:00.000Z, which sorts as
-- it is and needs no formatting. updated_at grows with each change of a row, so it identifies the version of a user. The service
-- writes name_lower and words, because lower() of SQLite knows ASCII only; e-mails are ASCII. words are those of name and e-mail,
-- folded, with a blank between them.
CREATE TABLE users (
  id INTEGER CONSTRAINT users_primary_key PRIMARY KEY AUTOINCREMENT,
  name TEXT NOT NULL,
  name_lower TEXT NOT NULL,
  email TEXT NOT NULL,
  words TEXT NOT NULL DEFAULT '',
  password_digest TEXT,
  created_at TEXT NOT NULL,
  updated_at TEXT NOT NULL,
  CONSTRAINT users_name_chars CHECK (length(name) BETWEEN 1 AND 255),
  CONSTRAINT users_email_chars CHECK (length(email) BETWEEN 1 AND 254),
  CONSTRAINT users_password_digest_phc CHECK (password_digest LIKE '$%'),
  CONSTRAINT users_times CHECK (length(created_at) = 24 AND length(updated_at) = 24)
) STRICT;

-- No two users have one e-mail, and a user is found by it.
CREATE UNIQUE INDEX users_email_unique ON users (lower(email));

-- The orders of lists. SQLite adds the id to each entry of an index.
CREATE INDEX users_by_name ON users (name_lower);
CREATE INDEX users_by_created_at ON users (created_at);
CREATE INDEX users_by_updated_at ON users (updated_at);

-- How many users there are, and a number that grows with each change of them. lists_id tells the lists of this database from those
-- of every other, whose revisions count from 1 too.
CREATE TABLE users_summary (
  singleton INTEGER CONSTRAINT users_summary_primary_key PRIMARY KEY,
  revision INTEGER NOT NULL,
  user_count INTEGER NOT NULL,
  lists_id TEXT NOT NULL,
  CONSTRAINT users_summary_singleton CHECK (singleton = 1)
) STRICT;

INSERT INTO users_summary (singleton, revision, user_count, lists_id) VALUES (1, 1, 0, lower(hex(randomblob(6))));

-- The rules by which the words of all users were made. A service with newer rules makes them again.
CREATE TABLE words_rules (
  singleton INTEGER CONSTRAINT words_rules_primary_key PRIMARY KEY,
  version INTEGER NOT NULL,
  CONSTRAINT words_rules_singleton CHECK (singleton = 1)
) STRICT;

INSERT INTO words_rules (singleton, version) VALUES (1, 0);

-- Finds users by the beginnings of their words. It holds no text: only which words users have, and their beginnings of 1 to 4
-- characters. The tokenizer splits at blanks, and leaves letters beyond ASCII as they are.
CREATE VIRTUAL TABLE users_words USING fts5(
  words, content = 'users', content_rowid = 'id', columnsize = 0, detail = none, tokenize = 'ascii', prefix = '1 2 3 4'
);

-- These three keep the index. FTS5 deletes by the words that it was given.
CREATE TRIGGER users_inserted_words AFTER INSERT ON users BEGIN
  INSERT INTO users_words (rowid, words) VALUES (NEW.id, NEW.words);
END;

CREATE TRIGGER users_updated_words AFTER UPDATE OF id, words ON users WHEN NEW.id <> OLD.id OR NEW.words <> OLD.words BEGIN
  INSERT INTO users_words (users_words, rowid, words) VALUES ('delete', OLD.id, OLD.words);
  INSERT INTO users_words (rowid, words) VALUES (NEW.id, NEW.words);
END;

CREATE TRIGGER users_deleted_words AFTER DELETE ON users BEGIN
  INSERT INTO users_words (users_words, rowid, words) VALUES ('delete', OLD.id, OLD.words);
END;

-- The feed: the latest change of each user, deletions among them. changed_in is the revision of the list that it made.
CREATE TABLE user_changes (
  id INTEGER CONSTRAINT user_changes_primary_key PRIMARY KEY,
  changed_in INTEGER NOT NULL,
  deleted_at TEXT
) STRICT;

-- The order in which followers read it.
CREATE UNIQUE INDEX user_changes_by_revision ON user_changes (changed_in);

-- The oldest deletions, which are forgotten first.
CREATE INDEX user_changes_of_deleted ON user_changes (changed_in) WHERE deleted_at IS NOT NULL;

-- mark: of this feed, new when cursors must expire, as after a restore. Deletions up to forgotten_in and forgotten_id may be forgotten.
CREATE TABLE user_feed (
  singleton INTEGER CONSTRAINT user_feed_primary_key PRIMARY KEY,
  mark TEXT NOT NULL,
  forgotten_in INTEGER NOT NULL,
  forgotten_id INTEGER NOT NULL,
  CONSTRAINT user_feed_singleton CHECK (singleton = 1)
) STRICT;

INSERT INTO user_feed (singleton, mark, forgotten_in, forgotten_id) VALUES (1, lower(hex(randomblob(8))), 0, 0);

-- The summary and the feed of a new user.
CREATE TRIGGER users_inserted AFTER INSERT ON users BEGIN
  UPDATE users_summary SET revision = revision + 1, user_count = user_count + 1 WHERE singleton = 1;
  INSERT INTO user_changes (id, changed_in) SELECT NEW.id, revision FROM users_summary WHERE singleton = 1
  ON CONFLICT (id) DO UPDATE SET changed_in = excluded.changed_in, deleted_at = NULL;
END;

-- The same for a change. A digest may be replaced by another digest of the same password: clients cannot see that, so their lists
-- stay valid.
CREATE TRIGGER users_updated AFTER UPDATE OF id, name, name_lower, email, created_at, updated_at ON users BEGIN
  UPDATE users_summary SET revision = revision + 1 WHERE singleton = 1;
  INSERT INTO user_changes (id, changed_in) SELECT NEW.id, revision FROM users_summary WHERE singleton = 1
  ON CONFLICT (id) DO UPDATE SET changed_in = excluded.changed_in, deleted_at = NULL;
END;

-- The same for a deletion.
CREATE TRIGGER users_deleted AFTER DELETE ON users BEGIN
  UPDATE users_summary SET revision = revision + 1, user_count = user_count - 1 WHERE singleton = 1;
  INSERT INTO user_changes (id, changed_in, deleted_at)
  SELECT OLD.id, revision, strftime('%Y-%m-%dT%H:%M:%fZ', 'now') FROM users_summary WHERE singleton = 1
  ON CONFLICT (id) DO UPDATE SET changed_in = excluded.changed_in, deleted_at = excluded.deleted_at;
END;

-- A user that another program gives another id is gone under the former one. The trigger for changes tells of the new one.
CREATE TRIGGER users_renumbered AFTER UPDATE OF id ON users WHEN NEW.id <> OLD.id BEGIN
  UPDATE users_summary SET revision = revision + 1 WHERE singleton = 1;
  INSERT INTO user_changes (id, changed_in, deleted_at)
  SELECT OLD.id, revision, strftime('%Y-%m-%dT%H:%M:%fZ', 'now') FROM users_summary WHERE singleton = 1
  ON CONFLICT (id) DO UPDATE SET changed_in = excluded.changed_in, deleted_at = excluded.deleted_at;
END;

-- Which Idempotency-Key created which user, and the answer that was given: the user as it was then. expires_at is in milliseconds
-- since the epoch.
CREATE TABLE idempotency_keys (
  key_hash BLOB CONSTRAINT idempotency_keys_primary_key PRIMARY KEY,
  user_id INTEGER NOT NULL,
  fingerprint TEXT,
  user_json TEXT,
  expires_at INTEGER NOT NULL,
  CONSTRAINT idempotency_keys_hash CHECK (length(key_hash) = 32)
) STRICT, WITHOUT ROWID;

-- For the trigger below, and for the keys that expire first.
CREATE INDEX idempotency_keys_by_user ON idempotency_keys (user_id);
CREATE INDEX idempotency_keys_by_expiry ON idempotency_keys (expires_at);

-- Deleting a user deletes the answer and leaves the key used.
CREATE TRIGGER users_deleted_with_answers AFTER DELETE ON users BEGIN
  UPDATE idempotency_keys SET fingerprint = NULL, user_json = NULL
  WHERE user_id = OLD.id;
END;

-- Random keys, which sign cursors. The first process that finds them missing creates them.
CREATE TABLE signing_keys (
  name TEXT CONSTRAINT signing_keys_primary_key PRIMARY KEY,
  key BLOB NOT NULL,
  CONSTRAINT signing_keys_length CHECK (length(key) = 32)
) STRICT, WITHOUT ROWID;

-- How far the import of a file has come, as JSON. It is stored together with the imported users, so that an interrupted import can
-- go on. recordsHash is SHA-256 of the records so far, by which the file is recognised. An import that is not finished does not begin
-- again by mistake.
CREATE TABLE imports (
  source TEXT CONSTRAINT imports_primary_key PRIMARY KEY,
  checkpoint TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- The mark of a copy from another database that is not complete. A database with this mark is not used for anything else.
-- run names the copy that fills it: an earlier one that still runs must not complete it.
CREATE TABLE unfinished_copies (
  singleton INTEGER CONSTRAINT unfinished_copies_primary_key PRIMARY KEY,
  run TEXT NOT NULL DEFAULT '',
  CONSTRAINT unfinished_copies_singleton CHECK (singleton = 1)
) STRICT;

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

-- A random number, new with each change of the keys that is not just a use, so that every process notices the change.
CREATE TABLE api_key_changes (
  singleton INTEGER CONSTRAINT api_key_changes_primary_key PRIMARY KEY,
  mark INTEGER NOT NULL,
  CONSTRAINT api_key_changes_singleton CHECK (singleton = 1)
) STRICT;

-- Each of these three writes a new mark.
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

-- Addresses that changes of users are posted to, each with how far it is in the feed. Secrets are stored as they are, because they
-- sign; the previous one signs too until rotated_until. begun_at is when it last began at a place of the feed, reset_at when its
-- cursor expired. Times are milliseconds since the epoch. revision grows with each command.
CREATE TABLE webhooks (
  name TEXT CONSTRAINT webhooks_primary_key PRIMARY KEY,
  url TEXT NOT NULL,
  secret BLOB NOT NULL,
  previous_secret BLOB,
  rotated_until INTEGER,
  revision INTEGER NOT NULL,
  cursor TEXT,
  begun_at INTEGER NOT NULL,
  reset_at INTEGER,
  disabled TEXT,
  failures INTEGER NOT NULL,
  failing_since INTEGER,
  last_error TEXT,
  retry_at INTEGER,
  CONSTRAINT webhooks_name_chars CHECK (length(name) BETWEEN 1 AND 64),
  CONSTRAINT webhooks_disabled_reasons CHECK (disabled IN ('gone', 'copied', 'restored'))
) STRICT, WITHOUT ROWID;

-- Which process posts to webhooks, and a number that grows while it does. Nobody if the holder is empty.
CREATE TABLE webhook_lease (
  singleton INTEGER CONSTRAINT webhook_lease_primary_key PRIMARY KEY,
  holder TEXT NOT NULL,
  beat INTEGER NOT NULL,
  CONSTRAINT webhook_lease_singleton CHECK (singleton = 1)
) STRICT;

INSERT INTO webhook_lease (singleton, holder, beat) VALUES (1, '', 0);

-- Which clients a rule of the limits denies, and until when, in milliseconds since the epoch. lasts_ms is the length of the ban
-- when it was made: even if the clock is set back, no more than that is left of it. A lifted ban has a negative length, and stays until
-- it would have ended, so that each process finds it. Processes read the rows that changed last, by changed_at.
CREATE TABLE bans (
  rule TEXT NOT NULL,
  client_key TEXT NOT NULL,
  ends_at INTEGER NOT NULL,
  lasts_ms INTEGER NOT NULL,
  changed_at INTEGER NOT NULL DEFAULT 0,
  CONSTRAINT bans_primary_key PRIMARY KEY (rule, client_key)
) STRICT, WITHOUT ROWID;

-- The order in which bans end and are listed.
CREATE INDEX bans_by_end ON bans (ends_at);

CREATE INDEX bans_by_change ON bans (changed_at);

-- The clock by which bans end: offset_ms and the milliseconds since the machine started, for the start named boot_id (Linux). The first
-- process after a start writes it, and the others obey it, so that a clock that is set later shortens no ban.
CREATE TABLE ban_clock (
  singleton INTEGER CONSTRAINT ban_clock_primary_key PRIMARY KEY,
  boot_id TEXT NOT NULL,
  offset_ms INTEGER NOT NULL,
  CONSTRAINT ban_clock_singleton CHECK (singleton = 1)
) STRICT;
