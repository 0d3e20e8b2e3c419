import type {
  CopiedApiKey,
  CopiedBan,
  CopiedKey,
  CopiedSigningKey,
  CopiedUser,
  CopyReader,
} from '../../copy/database-copy.ts'
import { fromStored, hashOfBan } from '../ban-text.ts'
import type { Session } from '../postgres-connections.ts'

const SELECT_USERS = `
  SELECT id, name, name_lower, email, password_digest, created_at, updated_at FROM users
  WHERE id > $1 ORDER BY id LIMIT $2`

const SELECT_KEYS = `
  SELECT encode(key_hash, 'hex'), user_id, fingerprint, user_version, user_json, expires_at
  FROM idempotency_keys WHERE key_hash > decode($1, 'hex') ORDER BY key_hash LIMIT $2`

const SELECT_BANS = `
  SELECT rule, client_key, ends_at, lasts_ms FROM bans
  WHERE key_hash > $1 ORDER BY key_hash LIMIT $2`

const SELECT_API_KEYS = `
  SELECT name, encode(key_hash, 'hex'), scopes, created_at, expires_at, last_used_at FROM api_keys
  WHERE name > $1 ORDER BY name LIMIT $2`

const SELECT_SIGNING_KEYS = `
  SELECT name, encode(key, 'hex') FROM signing_keys ORDER BY name COLLATE "C"`

/** Unlike `SELECT FROM users_id_seq`, it needs no more than the service: USAGE of the sequence. */
const SELECT_LAST_ID = `
  SELECT greatest(coalesce(pg_sequence_last_value('users_id_seq'::regclass), 0),
    coalesce((SELECT max(id) FROM users), 0))`

/** A planner without statistics, as after a copy, would read and sort the whole rest of a table for each chunk. */
const READ_IN_ORDER = `
  SELECT set_config('enable_sort', 'off', true), set_config('enable_bitmapscan', 'off', true),
    set_config('enable_seqscan', 'off', true)`

/** Makes reads of the transaction follow the index by which they are sorted. */
export async function readInOrder(session: Session): Promise<void> {
  await session.query({ text: READ_IN_ORDER })
}

/** Reads what is copied from a PostgreSQL database. */
export function createPostgresCopyReader(session: Session): CopyReader {
  return {
    users: (after, limit) =>
      session.query<CopiedUser>({ text: SELECT_USERS }, [after?.[0] ?? 0, limit]),

    idempotencyKeys: (after, limit) =>
      session.query<CopiedKey>({ text: SELECT_KEYS }, [after?.[0] ?? '', limit]),

    bans: async (after, limit) => {
      const last = after && hashOfBan({ rule: after[0], clientKey: after[1] })
      const values = [last ?? Buffer.alloc(0), limit]
      const rows = await session.query<CopiedBan>({ text: SELECT_BANS }, values)
      return rows.map(([rule, clientKey, ...times]) => [
        fromStored(rule),
        fromStored(clientKey),
        ...times,
      ])
    },

    apiKeys: (after, limit) =>
      session.query<CopiedApiKey>({ text: SELECT_API_KEYS }, [after?.[0] ?? '', limit]),

    signingKeys: () => session.query<CopiedSigningKey>({ text: SELECT_SIGNING_KEYS }),

    lastId: async () => {
      const [row] = await session.query<[number]>({ text: SELECT_LAST_ID })
      return row?.[0] ?? 0
    },
  }
}
