-- Waits for writes that began before the triggers below changed, and holds up writes only for the time of this migration.
LOCK TABLE users IN SHARE ROW EXCLUSIVE MODE;

-- The words of each user. The service makes them, because every database folds letters in its own way. A table of its own,
-- because adding a column to all users would write the whole table and its indexes again. Its rows are narrow, so that many
-- of them are read quickly in the order of the ids. The list of changes that an index keeps aside is read by each search, so
-- it must stay short.
CREATE TABLE users_words (
  id bigint CONSTRAINT users_words_primary_key PRIMARY KEY,
  words tsvector NOT NULL
);

CREATE INDEX users_words_by_word ON users_words USING gin (words) WITH (gin_pending_list_limit = 128);

-- Users that were written by something that knows no words, such as an older release. The service adds their words.
CREATE TABLE users_without_words (
  id bigint CONSTRAINT users_without_words_primary_key PRIMARY KEY
);

-- Which other users have words: all if indexed_through is null, else those with an id up to that.
CREATE TABLE users_words_state (
  singleton smallint CONSTRAINT users_words_state_primary_key PRIMARY KEY,
  words_version integer NOT NULL,
  indexed_through bigint,
  CONSTRAINT users_words_state_singleton CHECK (singleton = 1)
);

INSERT INTO users_words_state (singleton, words_version, indexed_through)
SELECT 1, 1, CASE WHEN EXISTS (SELECT FROM users) THEN 0 END;

-- A statement that writes the words too, or whose transaction does, sets user_records.words to 'written'.
CREATE OR REPLACE FUNCTION note_inserted_users() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
  rows bigint := (SELECT count(*) FROM inserted);
BEGIN
  IF rows > 0 THEN PERFORM note_user_changes(rows, rows); END IF;
  IF current_setting('user_records.words', true) IS DISTINCT FROM 'written' THEN
    INSERT INTO users_without_words (id) SELECT id FROM inserted ORDER BY id ON CONFLICT DO NOTHING;
  END IF;
  RETURN NULL;
END $$;

CREATE OR REPLACE FUNCTION note_updated_users() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
  rows bigint := (SELECT count(*) FROM (
    SELECT id, name_lower, shown FROM updated EXCEPT ALL SELECT id, name_lower, shown FROM former) AS changed);
BEGIN
  IF rows > 0 THEN PERFORM note_user_changes(0, rows); END IF;
  IF rows > 0 AND current_setting('user_records.words', true) IS DISTINCT FROM 'written' THEN
    INSERT INTO users_without_words (id)
    SELECT id FROM (SELECT id, name, email FROM updated EXCEPT SELECT id, name, email FROM former) AS renamed
    ORDER BY id ON CONFLICT DO NOTHING;
  END IF;
  RETURN NULL;
END $$;

CREATE OR REPLACE FUNCTION note_deleted_users() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
  rows bigint := (SELECT count(*) FROM deleted);
BEGIN
  IF rows > 0 THEN
    PERFORM note_user_changes(-rows, rows);
    DELETE FROM users_words WHERE id IN (SELECT id FROM deleted);
  END IF;
  RETURN NULL;
END $$;

CREATE OR REPLACE FUNCTION note_truncated_users() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
  PERFORM note_user_changes(-coalesce(sum(user_count), 0)::bigint, 1) FROM users_summary;
  DELETE FROM users_words;
  RETURN NULL;
END $$;
