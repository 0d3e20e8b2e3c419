import { FAULTS } from '../../check-rules.ts'
import { INDEXED_THROUGH } from '../index-next-users.ts'
import { type Connections, LONG_WORK } from '../postgres-connections.ts'
import { wordsText } from '../user-words.ts'

type ChunkRow = readonly [id: number, name: string, email: string, words: string | null]

/** The words of these users are made in some ten milliseconds, which holds up nothing else: the command only checks. */
const CHUNK_USERS = 5000

/** Users that are still to be indexed have no words to compare. */
const SELECT_CHUNK = `
  SELECT chunk.id, name, email,
    CASE WHEN chunk.id <= (${INDEXED_THROUGH})
        AND NOT EXISTS (SELECT FROM users_without_words WHERE users_without_words.id = chunk.id)
      THEN coalesce(array_to_string(tsvector_to_array(words), ' '), '') END
  FROM (SELECT id, name, email FROM users WHERE id > $1 ORDER BY id LIMIT ${CHUNK_USERS}) AS chunk
    LEFT JOIN users_words ON users_words.id = chunk.id
  ORDER BY chunk.id`

const COUNT_ORPHANS = `
  SELECT count(*) FROM users_words WHERE NOT EXISTS (SELECT FROM users WHERE users.id = users_words.id)`

/** Compares the words of all users with their names and e-mails, also while others write. Each chunk is of one state. */
export async function findWordFaults(connections: Connections): Promise<readonly string[]> {
  for (let last: number | undefined = 0; last !== undefined; ) {
    const users: ChunkRow[] = await connections.query({ text: SELECT_CHUNK }, [last], LONG_WORK)
    if (users.some(isWrong)) return [FAULTS.wrongWords]
    last = users.at(-1)?.[0]
  }
  const [[orphans] = [0]] = await connections.query<[number]>(
    { text: COUNT_ORPHANS },
    [],
    LONG_WORK,
  )
  return orphans === 0 ? [] : [FAULTS.wrongWords]
}

function isWrong([, name, email, words]: ChunkRow): boolean {
  return words !== null && sorted(words) !== sorted(wordsText({ name, email }))
}

function sorted(words: string): string {
  return words.split(' ').sort().join(' ')
}
