-- A random number, new with each change of the bans. Triggers write it, so that every process finds out, whoever makes the change.
CREATE TABLE ban_changes (
  singleton INTEGER CONSTRAINT ban_changes_primary_key PRIMARY KEY,
  mark INTEGER NOT NULL,
  CONSTRAINT ban_changes_singleton CHECK (singleton = 1)
) STRICT;

INSERT INTO ban_changes (singleton, mark) VALUES (1, 0);

CREATE TRIGGER bans_inserted AFTER INSERT ON bans BEGIN
  UPDATE ban_changes SET mark = abs(random() % 281474976710656) WHERE singleton = 1;
END;

CREATE TRIGGER bans_updated AFTER UPDATE ON bans BEGIN
  UPDATE ban_changes SET mark = abs(random() % 281474976710656) WHERE singleton = 1;
END;

CREATE TRIGGER bans_deleted AFTER DELETE ON bans BEGIN
  UPDATE ban_changes SET mark = abs(random() % 281474976710656) WHERE singleton = 1;
END;
