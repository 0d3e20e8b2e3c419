-- Which clients a rule of the limits denies, and until when, in milliseconds since the epoch. lasts_ms is the length of
-- the ban when it was made: even if the clock is set back, no more than that is left of it.
-- PostgreSQL stores no NUL characters, so in rule and client_key a NUL is \0 and a backslash is \\.
-- key_hash is SHA-256 of both, because a client chooses its key, and a long text does not fit into an index.
CREATE TABLE bans (
  key_hash bytea CONSTRAINT bans_primary_key PRIMARY KEY,
  rule text COLLATE "C" NOT NULL,
  client_key text COLLATE "C" NOT NULL,
  ends_at bigint NOT NULL,
  lasts_ms bigint NOT NULL,
  CONSTRAINT bans_key_hash CHECK (length(key_hash) = 32)
);

CREATE INDEX bans_by_end ON bans (ends_at, left(rule, 200), left(client_key, 200), key_hash);

-- Which process has changed the bans: `mark` is random and new with each change. A process reads the rows of the others.
-- It names itself in the setting user_records.writer; a change without that setting belongs to the writer ''.
CREATE TABLE ban_changes (
  writer text COLLATE "C" CONSTRAINT ban_changes_primary_key PRIMARY KEY,
  mark bigint NOT NULL,
  changed_at timestamptz NOT NULL
);

-- The rows of processes that have made no change for a day are deleted when a process makes its first one.
CREATE FUNCTION note_ban_changes() RETURNS void LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
  this_writer text := coalesce(current_setting('user_records.writer', true), '');
  new_mark bigint := floor(random() * 281474976710656);
BEGIN
  UPDATE ban_changes SET mark = new_mark, changed_at = now() WHERE writer = this_writer;
  IF FOUND THEN RETURN; END IF;
  DELETE FROM ban_changes WHERE writer IN (
    SELECT writer FROM ban_changes WHERE changed_at < now() - interval '1 day' FOR UPDATE SKIP LOCKED);
  INSERT INTO ban_changes (writer, mark, changed_at) VALUES (this_writer, new_mark, now())
  ON CONFLICT (writer) DO UPDATE SET mark = EXCLUDED.mark, changed_at = EXCLUDED.changed_at;
END $$;

CREATE FUNCTION note_written_bans() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
  IF EXISTS (SELECT FROM written) THEN PERFORM note_ban_changes(); END IF;
  RETURN NULL;
END $$;

CREATE FUNCTION note_truncated_bans() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
  PERFORM note_ban_changes();
  RETURN NULL;
END $$;

CREATE TRIGGER bans_inserted AFTER INSERT ON bans
  REFERENCING NEW TABLE AS written FOR EACH STATEMENT EXECUTE FUNCTION note_written_bans();

CREATE TRIGGER bans_updated AFTER UPDATE ON bans
  REFERENCING NEW TABLE AS written FOR EACH STATEMENT EXECUTE FUNCTION note_written_bans();

CREATE TRIGGER bans_deleted AFTER DELETE ON bans
  REFERENCING OLD TABLE AS written FOR EACH STATEMENT EXECUTE FUNCTION note_written_bans();

CREATE TRIGGER bans_truncated AFTER TRUNCATE ON bans
  FOR EACH STATEMENT EXECUTE FUNCTION note_truncated_bans();
