import type { SchemaObject } from './schema-snapshot.ts'

/**
 * What each migration adds or replaces, in the words of `readSchema`. It is written down because a role that may not create tables has
 * no way to make a second schema and compare. A test compares this list with what the migrations make.
 */
const EXPECTED = `
1 column users.created_at: text not null collate C
1 column users.email: text not null
1 column users.email_lower: text not null collate C generated
1 column users.id: bigint not null identity
1 column users.name: text not null
1 column users.name_lower: text not null collate C
1 column users.password_digest: text
1 column users.shown: text not null generated
1 column users.updated_at: text not null collate C
1 column users_summary.mark: bigint not null
1 column users_summary.revision: bigint not null
1 column users_summary.slot: bigint not null identity
1 column users_summary.user_count: bigint not null
1 constraint users_email_chars: check of users (email)
1 constraint users_email_unique: unique of users (email_lower)
1 constraint users_id_positive: check of users (id)
1 constraint users_name_chars: check of users (name)
1 constraint users_password_digest_phc: check of users (password_digest)
1 constraint users_primary_key: primary key of users (id)
1 constraint users_summary_primary_key: primary key of users_summary (slot)
1 constraint users_times: check of users (created_at, updated_at)
1 function note_deleted_users: takes () returns trigger has a search path
1 function note_inserted_users: takes () returns trigger has a search path
1 function note_truncated_users: takes () returns trigger has a search path
1 function note_updated_users: takes () returns trigger has a search path
1 function note_user_changes: takes (added bigint, changed bigint) returns void has a search path
1 index users_by_created_at: on users (created_at, id)
1 index users_by_name: on users (name_lower, id)
1 index users_by_updated_at: on users (updated_at, id)
1 index users_email_unique: unique on users (email_lower)
1 index users_primary_key: unique on users (id)
1 index users_summary_primary_key: unique on users_summary (slot)
1 sequence users_id_seq: by 1 to 9007199254740991
1 sequence users_summary_slot_seq: by 1 to 9223372036854775807
1 table users:
1 table users_summary:
1 trigger users_deleted: of users type 8 enabled O calls note_deleted_users deleted
1 trigger users_inserted: of users type 4 enabled O calls note_inserted_users inserted
1 trigger users_truncated: of users type 32 enabled O calls note_truncated_users
1 trigger users_updated: of users type 16 enabled O calls note_updated_users updated
2 column idempotency_keys.expires_at: bigint not null
2 column idempotency_keys.fingerprint: text
2 column idempotency_keys.key_hash: bytea not null
2 column idempotency_keys.user_id: bigint not null
2 column idempotency_keys.user_json: text
2 column idempotency_keys.user_version: text
2 constraint idempotency_keys_hash: check of idempotency_keys (key_hash)
2 constraint idempotency_keys_primary_key: primary key of idempotency_keys (key_hash)
2 function forget_answers_of_deleted_users: takes () returns trigger has a search path
2 index idempotency_keys_by_expiry: on idempotency_keys (expires_at)
2 index idempotency_keys_by_user: on idempotency_keys (user_id)
2 index idempotency_keys_primary_key: unique on idempotency_keys (key_hash)
2 table idempotency_keys:
2 trigger users_deleted_with_answers: of users type 8 enabled O calls forget_answers_of_deleted_users deleted
3 column ban_changes.changed_at: timestamp with time zone not null
3 column ban_changes.mark: bigint not null
3 column ban_changes.writer: text not null collate C
3 column bans.client_key: text not null collate C
3 column bans.ends_at: bigint not null
3 column bans.key_hash: bytea not null
3 column bans.lasts_ms: bigint not null
3 column bans.rule: text not null collate C
3 constraint ban_changes_primary_key: primary key of ban_changes (writer)
3 constraint bans_key_hash: check of bans (key_hash)
3 constraint bans_primary_key: primary key of bans (key_hash)
3 function note_ban_changes: takes () returns void has a search path
3 function note_truncated_bans: takes () returns trigger has a search path
3 function note_written_bans: takes () returns trigger has a search path
3 index ban_changes_primary_key: unique on ban_changes (writer)
3 index bans_by_end: on bans (ends_at, expression, expression, key_hash)
3 index bans_primary_key: unique on bans (key_hash)
3 table ban_changes:
3 table bans:
3 trigger bans_deleted: of bans type 8 enabled O calls note_written_bans written
3 trigger bans_inserted: of bans type 4 enabled O calls note_written_bans written
3 trigger bans_truncated: of bans type 32 enabled O calls note_truncated_bans
3 trigger bans_updated: of bans type 16 enabled O calls note_written_bans written
4 column signing_keys.key: bytea not null
4 column signing_keys.name: text not null
4 constraint signing_keys_length: check of signing_keys (key)
4 constraint signing_keys_primary_key: primary key of signing_keys (name)
4 index signing_keys_primary_key: unique on signing_keys (name)
4 table signing_keys:
5 column imports.created_count: bigint not null
5 column imports.is_finished: boolean not null default
5 column imports.record_count: bigint not null
5 column imports.records_hash: bytea not null
5 column imports.refused_count: bigint not null
5 column imports.rejects_bytes: bigint not null
5 column imports.skipped_count: bigint not null
5 column imports.source: text not null
5 column imports.unchanged_count: bigint not null
5 column imports.updated_at: text not null
5 column imports.updated_count: bigint not null
5 constraint imports_primary_key: primary key of imports (source)
5 constraint imports_records_hash: check of imports (records_hash)
5 function take_user_ids: takes (wanted_ids bigint[]) returns bigint[] runs as its owner has a search path
5 index imports_primary_key: unique on imports (source)
5 table imports:
6 column unfinished_copies.singleton: smallint not null
6 column unfinished_copies.source_hash: text not null
6 constraint unfinished_copies_primary_key: primary key of unfinished_copies (singleton)
6 constraint unfinished_copies_singleton: check of unfinished_copies (singleton)
6 index unfinished_copies_primary_key: unique on unfinished_copies (singleton)
6 table unfinished_copies:
7 column api_key_changes.mark: bigint not null
7 column api_key_changes.singleton: smallint not null
7 column api_keys.created_at: bigint not null
7 column api_keys.expires_at: bigint
7 column api_keys.key_hash: bytea not null
7 column api_keys.last_used_at: bigint
7 column api_keys.name: text not null collate C
7 column api_keys.scopes: text not null
7 constraint api_key_changes_primary_key: primary key of api_key_changes (singleton)
7 constraint api_key_changes_singleton: check of api_key_changes (singleton)
7 constraint api_keys_hash_length: check of api_keys (key_hash)
7 constraint api_keys_hash_unique: unique of api_keys (key_hash)
7 constraint api_keys_name_chars: check of api_keys (name)
7 constraint api_keys_primary_key: primary key of api_keys (name)
7 constraint api_keys_some_scopes: check of api_keys (scopes)
7 function note_api_key_changes: takes () returns trigger has a search path
7 index api_key_changes_primary_key: unique on api_key_changes (singleton)
7 index api_keys_hash_unique: unique on api_keys (key_hash)
7 index api_keys_primary_key: unique on api_keys (name)
7 table api_key_changes:
7 table api_keys:
7 trigger api_keys_changed: of api_keys type 60 enabled O calls note_api_key_changes
8 trigger users_updated: of users type 16 enabled O calls note_updated_users former updated
9 column users_without_words.id: bigint not null
9 column users_words.id: bigint not null
9 column users_words.words: tsvector not null
9 column users_words_state.indexed_through: bigint
9 column users_words_state.singleton: smallint not null
9 column users_words_state.words_version: integer not null
9 constraint users_without_words_primary_key: primary key of users_without_words (id)
9 constraint users_words_primary_key: primary key of users_words (id)
9 constraint users_words_state_primary_key: primary key of users_words_state (singleton)
9 constraint users_words_state_singleton: check of users_words_state (singleton)
9 index users_without_words_primary_key: unique on users_without_words (id)
9 index users_words_by_word: on users_words (words)
9 index users_words_primary_key: unique on users_words (id)
9 index users_words_state_primary_key: unique on users_words_state (singleton)
9 table users_without_words:
9 table users_words:
9 table users_words_state:`

interface Expected extends SchemaObject {
  readonly since: number
}

const objects = EXPECTED.split('\n')
  .filter(line => line !== '')
  .map(toExpected)

/** The tables of the service. */
export const EXPECTED_TABLES: readonly string[] = namesOf('table ')

/** The functions of the service. */
export const EXPECTED_FUNCTIONS: readonly string[] = namesOf('function ')

/** What a database has after its first `version` migrations. */
export function expectedAfter(version: number): readonly SchemaObject[] {
  const there = objects.filter(({ since }) => since <= version)
  return [...new Map(there.map(object => [object.name, object])).values()]
}

function toExpected(line: string): Expected {
  const space = line.indexOf(' ')
  const colon = line.indexOf(':')
  return {
    since: Number(line.slice(0, space)),
    name: line.slice(space + 1, colon),
    definition: line.slice(colon + 1).trim(),
  }
}

function namesOf(kind: string): string[] {
  return objects
    .filter(({ name }) => name.startsWith(kind))
    .map(({ name }) => name.slice(kind.length))
}
