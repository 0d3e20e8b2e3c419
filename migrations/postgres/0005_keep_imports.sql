-- How far the import of a file has come. It is stored together with the imported users, so that an interrupted import can
-- go on. records_hash is SHA-256 of the records so far, by which the file is recognised.
CREATE TABLE imports (
  source text CONSTRAINT imports_primary_key PRIMARY KEY,
  record_count bigint NOT NULL,
  records_hash bytea NOT NULL,
  rejects_bytes bigint NOT NULL,
  created_count bigint NOT NULL,
  updated_count bigint NOT NULL,
  unchanged_count bigint NOT NULL,
  skipped_count bigint NOT NULL,
  refused_count bigint NOT NULL,
  is_finished boolean NOT NULL DEFAULT false,
  updated_at text NOT NULL,
  CONSTRAINT imports_records_hash CHECK (length(records_hash) = 32)
);

-- Gives out ids for new users, in order: for each null in wanted_ids the next one, otherwise the wanted one itself, which
-- the sequence never gives out after that. It runs as its owner, because a role that only serves may not use setval. The
-- caller must commit right after it, because it may hold a lock against other callers.
CREATE FUNCTION take_user_ids(wanted_ids bigint[]) RETURNS bigint[]
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
  taken bigint[] := '{}';
  wanted bigint;
  last_id bigint;
BEGIN
  IF NOT has_table_privilege(session_user, 'users', 'INSERT') THEN
    RAISE insufficient_privilege USING MESSAGE = 'permission denied for table users';
  END IF;
  FOREACH wanted IN ARRAY wanted_ids LOOP
    IF wanted IS NULL THEN
      wanted := nextval('users_id_seq');
    ELSE
      SELECT last_value - CASE WHEN is_called THEN 0 ELSE 1 END INTO last_id FROM users_id_seq;
      IF wanted - last_id > 10000 THEN
        PERFORM pg_advisory_xact_lock('users_id_seq'::regclass::oid::bigint);
        SELECT last_value INTO last_id FROM users_id_seq;
        -- Meanwhile nobody takes this many ids, so setval cannot take the sequence back.
        IF wanted - last_id > 10000 THEN last_id := setval('users_id_seq', wanted); END IF;
      END IF;
      WHILE last_id < wanted LOOP last_id := nextval('users_id_seq'); END LOOP;
    END IF;
    taken := taken || wanted;
  END LOOP;
  RETURN taken;
END $$;
