-- The same for ids that are far apart, in a bounded number of steps. Ids of one run without a null are passed at once. The next
-- 10,000 ids of a call are taken one by one. Beyond that it jumps, and at least 10,000 ids far: meanwhile nobody takes so many,
-- so setval cannot take the sequence back. The ids in between stay unused.
CREATE OR REPLACE FUNCTION take_user_ids(wanted_ids bigint[]) RETURNS bigint[]
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
  margin constant bigint := 10000;
  max_id constant bigint := 9007199254740991;
  taken bigint[] := '{}';
  wanted bigint;
  greatest_wanted bigint;
  last_id bigint;
  steps bigint := 0;
BEGIN
  IF NOT has_table_privilege(session_user, 'users', 'INSERT') THEN
    RAISE insufficient_privilege USING MESSAGE = 'permission denied for table users';
  END IF;
  -- The last null only ends the last run.
  FOREACH wanted IN ARRAY wanted_ids || NULL::bigint LOOP
    IF wanted IS NOT NULL THEN
      greatest_wanted := greatest(greatest_wanted, wanted);
      taken := taken || wanted;
      CONTINUE;
    END IF;
    IF greatest_wanted IS NOT NULL THEN
      SELECT last_value - CASE WHEN is_called THEN 0 ELSE 1 END INTO last_id FROM users_id_seq;
      IF greatest_wanted - last_id > margin - steps THEN
        PERFORM pg_advisory_xact_lock('users_id_seq'::regclass::oid::bigint);
        SELECT last_value INTO last_id FROM users_id_seq;
        IF greatest_wanted > last_id THEN
          last_id := setval('users_id_seq', greatest(greatest_wanted, least(last_id + margin, max_id)));
        END IF;
      END IF;
      WHILE last_id < greatest_wanted LOOP
        last_id := nextval('users_id_seq');
        steps := steps + 1;
      END LOOP;
      greatest_wanted := NULL;
    END IF;
    EXIT WHEN cardinality(taken) = cardinality(wanted_ids);
    taken := taken || nextval('users_id_seq');
  END LOOP;
  RETURN taken;
END $$;
