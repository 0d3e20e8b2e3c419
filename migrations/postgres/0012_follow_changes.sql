-- Waits for writes that began before the triggers below changed, and holds up writes only for the time of this migration.
LOCK TABLE users IN SHARE ROW EXCLUSIVE MODE;

-- The latest change of each user, deletions among them, by the transaction that made it. Triggers keep it, so that it is right
-- whoever writes. A number of a sequence would be given out before its transaction commits: whoever reads in the order of such
-- numbers misses those that commit late. Of the numbers of transactions, all below the oldest one that runs have ended.
CREATE TABLE user_changes (
  id bigint CONSTRAINT user_changes_primary_key PRIMARY KEY,
  changed_in xid8 NOT NULL,
  deleted_at text COLLATE "C"
) WITH (fillfactor = 80);

CREATE INDEX user_changes_by_transaction ON user_changes (changed_in, id);
CREATE INDEX user_changes_of_deleted ON user_changes (changed_in, id) WHERE deleted_at IS NOT NULL;

-- mark: of this feed, new when cursors must expire. Users up to the id baseline_through without a change were there before the
-- feed. Deletions up to forgotten_in and forgotten_id may be forgotten. server: which server, timeline, database and table
-- has the transactions of the feed; they mean nothing after a restore from a dump, which makes the table anew.
CREATE TABLE user_feed (
  singleton smallint CONSTRAINT user_feed_primary_key PRIMARY KEY,
  mark text NOT NULL,
  baseline_through bigint NOT NULL,
  forgotten_in xid8 NOT NULL,
  forgotten_id bigint NOT NULL,
  server text NOT NULL,
  CONSTRAINT user_feed_singleton CHECK (singleton = 1)
);

INSERT INTO user_feed (singleton, mark, baseline_through, forgotten_in, forgotten_id, server)
SELECT 1, md5(random()::text || clock_timestamp()::text), coalesce((SELECT max(id) FROM users), 0), '0', 0,
  concat_ws('/', system_identifier, left(pg_walfile_name(pg_current_wal_lsn()), 8), pg_database.oid, 'user_feed'::regclass::oid)
FROM pg_control_system(), pg_database WHERE datname = current_database();

CREATE OR REPLACE FUNCTION note_inserted_users() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
  rows bigint := (SELECT count(*) FROM inserted);
BEGIN
  IF rows > 0 THEN
    PERFORM note_user_changes(rows, rows);
    INSERT INTO user_changes (id, changed_in) SELECT id, pg_current_xact_id() FROM inserted ORDER BY id
    ON CONFLICT (id) DO UPDATE SET changed_in = EXCLUDED.changed_in, deleted_at = NULL;
  END IF;
  IF current_setting('user_records.words', true) IS DISTINCT FROM 'written' THEN
    INSERT INTO users_without_words (id) SELECT id FROM inserted ORDER BY id ON CONFLICT DO NOTHING;
  END IF;
  RETURN NULL;
END $$;

CREATE OR REPLACE FUNCTION note_updated_users() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
  changed bigint[] := ARRAY(SELECT id FROM (
    SELECT id, name_lower, shown FROM updated EXCEPT ALL SELECT id, name_lower, shown FROM former) AS changed ORDER BY id);
BEGIN
  IF cardinality(changed) > 0 THEN
    PERFORM note_user_changes(0, cardinality(changed));
    INSERT INTO user_changes (id, changed_in) SELECT unnest(changed), pg_current_xact_id()
    ON CONFLICT (id) DO UPDATE SET changed_in = EXCLUDED.changed_in, deleted_at = NULL;
    IF current_setting('user_records.words', true) IS DISTINCT FROM 'written' THEN
      INSERT INTO users_without_words (id)
      SELECT id FROM (SELECT id, name, email FROM updated EXCEPT SELECT id, name, email FROM former) AS renamed
      ORDER BY id ON CONFLICT DO NOTHING;
    END IF;
  END IF;
  RETURN NULL;
END $$;

CREATE OR REPLACE FUNCTION note_deleted_users() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
  rows bigint := (SELECT count(*) FROM deleted);
BEGIN
  IF rows > 0 THEN
    PERFORM note_user_changes(-rows, rows);
    INSERT INTO user_changes (id, changed_in, deleted_at)
    SELECT id, pg_current_xact_id(), to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')
    FROM deleted ORDER BY id
    ON CONFLICT (id) DO UPDATE SET changed_in = EXCLUDED.changed_in, deleted_at = EXCLUDED.deleted_at;
    DELETE FROM users_words WHERE id IN (SELECT id FROM deleted);
  END IF;
  RETURN NULL;
END $$;

-- Who follows the feed starts again.
CREATE OR REPLACE FUNCTION note_truncated_users() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
  PERFORM note_user_changes(-coalesce(sum(user_count), 0)::bigint, 1) FROM users_summary;
  DELETE FROM users_words;
  DELETE FROM user_changes;
  UPDATE user_feed SET mark = md5(random()::text || clock_timestamp()::text), baseline_through = 0, forgotten_in = '0', forgotten_id = 0;
  RETURN NULL;
END $$;
