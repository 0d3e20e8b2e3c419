DROP TRIGGER bans_inserted;
DROP TRIGGER bans_updated;
DROP TRIGGER bans_deleted;
DROP TABLE ban_changes;

-- Which process has changed the bans: `mark` is random and new with each change. A process reads the rows of the others. It sets
-- is_acting for the time of its transaction; a change without that belongs to the writer ''. changed_at is in seconds since the epoch.
CREATE TABLE ban_changes (
  writer TEXT CONSTRAINT ban_changes_primary_key PRIMARY KEY,
  mark INTEGER NOT NULL DEFAULT 0,
  changed_at INTEGER NOT NULL DEFAULT (unixepoch()),
  is_acting INTEGER NOT NULL DEFAULT 0
) STRICT, WITHOUT ROWID;

INSERT INTO ban_changes (writer) VALUES ('');

CREATE TRIGGER bans_inserted AFTER INSERT ON bans BEGIN
  UPDATE ban_changes SET mark = abs(random() % 281474976710656), changed_at = unixepoch()
  WHERE writer = coalesce((SELECT writer FROM ban_changes WHERE is_acting), '');
END;

CREATE TRIGGER bans_updated AFTER UPDATE ON bans BEGIN
  UPDATE ban_changes SET mark = abs(random() % 281474976710656), changed_at = unixepoch()
  WHERE writer = coalesce((SELECT writer FROM ban_changes WHERE is_acting), '');
END;

CREATE TRIGGER bans_deleted AFTER DELETE ON bans BEGIN
  UPDATE ban_changes SET mark = abs(random() % 281474976710656), changed_at = unixepoch()
  WHERE writer = coalesce((SELECT writer FROM ban_changes WHERE is_acting), '');
END;

-- The rows of processes that have made no change for a day are deleted when a process makes its first one.
CREATE TRIGGER ban_changes_inserted AFTER INSERT ON ban_changes BEGIN
  DELETE FROM ban_changes WHERE writer <> '' AND changed_at < unixepoch() - 86400;
END;
