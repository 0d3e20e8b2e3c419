-- Releases before 0007 did not store whether an import reached its end. Their imports may begin again without being asked
-- for, as they could with those releases, and may still be resumed.
UPDATE imports SET is_finished = 1
WHERE updated_at < (SELECT applied_at FROM schema_migrations WHERE version = 7);
