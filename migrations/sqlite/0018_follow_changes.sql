-- The latest change of each user, deletions among them, by the revision of the list that it made. Triggers keep it, so that it is
-- right whoever writes.
CREATE TABLE user_changes (
  id INTEGER CONSTRAINT user_changes_primary_key PRIMARY KEY,
  revision INTEGER NOT NULL,
  deleted_at TEXT
) STRICT;

CREATE UNIQUE INDEX user_changes_by_revision ON user_changes (revision);
CREATE INDEX user_changes_of_deleted ON user_changes (revision) WHERE deleted_at IS NOT NULL;

-- mark: of this feed, new when cursors must expire, as after a restore. Users up to the id baseline_through without a change
-- were there before the feed. All deletions up to the revision forgotten_through may be forgotten.
CREATE TABLE user_feed (
  singleton INTEGER CONSTRAINT user_feed_primary_key PRIMARY KEY,
  mark TEXT NOT NULL,
  baseline_through INTEGER NOT NULL,
  forgotten_through INTEGER NOT NULL,
  CONSTRAINT user_feed_singleton CHECK (singleton = 1)
) STRICT;

INSERT INTO user_feed (singleton, mark, baseline_through, forgotten_through)
SELECT 1, lower(hex(randomblob(8))), coalesce(max(id), 0), 0 FROM users;

DROP TRIGGER users_inserted;
DROP TRIGGER users_updated;
DROP TRIGGER users_deleted;

CREATE TRIGGER users_inserted AFTER INSERT ON users BEGIN
  UPDATE users_summary SET revision = revision + 1, user_count = user_count + 1 WHERE singleton = 1;
  INSERT INTO user_changes (id, revision) SELECT NEW.id, revision FROM users_summary WHERE singleton = 1
  ON CONFLICT (id) DO UPDATE SET revision = excluded.revision, deleted_at = NULL;
END;

CREATE TRIGGER users_updated AFTER UPDATE OF id, name, name_lower, email, created_at, updated_at ON users BEGIN
  UPDATE users_summary SET revision = revision + 1 WHERE singleton = 1;
  INSERT INTO user_changes (id, revision) SELECT NEW.id, revision FROM users_summary WHERE singleton = 1
  ON CONFLICT (id) DO UPDATE SET revision = excluded.revision, deleted_at = NULL;
END;

CREATE TRIGGER users_deleted AFTER DELETE ON users BEGIN
  UPDATE users_summary SET revision = revision + 1, user_count = user_count - 1 WHERE singleton = 1;
  INSERT INTO user_changes (id, revision, deleted_at)
  SELECT OLD.id, revision, strftime('%Y-%m-%dT%H:%M:%fZ', 'now') FROM users_summary WHERE singleton = 1
  ON CONFLICT (id) DO UPDATE SET revision = excluded.revision, deleted_at = excluded.deleted_at;
END;
