-- A digest may be replaced by another digest of the same password. Clients cannot see that, so their lists stay valid.
DROP TRIGGER users_updated;

CREATE TRIGGER users_updated AFTER UPDATE OF id, name, name_lower, email, created_at, updated_at ON users BEGIN
  UPDATE users_summary SET revision = revision + 1 WHERE singleton = 1;
END;
