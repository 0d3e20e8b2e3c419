/** SQL for the greatest id that each engine knows to be given out; 0 if none was. A program that writes to the database may use greater ones. */
export const LAST_GIVEN_ID = {
  sqlite: `coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'users'), 0)`,
  /** Unlike `SELECT FROM users_id_seq`, it needs no more than the service: USAGE of the sequence. */
  postgres: `coalesce(pg_sequence_last_value('users_id_seq'::regclass), 0)`,
}

/** SQL for the greatest id of a user; 0 without users. */
export const GREATEST_ID = `coalesce((SELECT max(id) FROM users), 0)`
