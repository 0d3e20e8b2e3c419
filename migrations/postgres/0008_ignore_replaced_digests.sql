-- A digest may be replaced by another digest of the same password. Clients cannot see that, so their lists stay valid.
-- EXCEPT, because a join of the two could take time with the square of the number of users.
CREATE OR REPLACE FUNCTION note_updated_users() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
  rows bigint := (SELECT count(*) FROM (
    SELECT id, name_lower, shown FROM updated EXCEPT ALL SELECT id, name_lower, shown FROM former) AS changed);
BEGIN
  IF rows > 0 THEN PERFORM note_user_changes(0, rows); END IF;
  RETURN NULL;
END $$;

DROP TRIGGER users_updated ON users;

CREATE TRIGGER users_updated AFTER UPDATE ON users
  REFERENCING OLD TABLE AS former NEW TABLE AS updated FOR EACH STATEMENT EXECUTE FUNCTION note_updated_users();
